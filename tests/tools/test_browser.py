"""The browser is found where it is installed, and where it is not, the command that installs it is shown."""

import pytest

from tools import browser


def test_both_programs_are_found():
    found = browser.find_browser()
    assert (found.browser.name, found.driver.name) == ("chromium", "chromedriver")


def test_without_a_browser_the_error_says_how_to_install_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no Chromium found; as root: apt-get .* chromium chromium-driver"):
        browser.find_browser()


def test_installing_does_nothing_where_a_browser_is(monkeypatch):
    monkeypatch.setattr(browser, "INSTALL", "false")
    assert browser.install() == 0


def test_root_installs_it(monkeypatch):
    """What is run is another command here."""
    monkeypatch.setattr(browser.debian.os, "geteuid", lambda: 0)
    monkeypatch.setattr(browser, "INSTALL", "exit 7")
    monkeypatch.setattr(browser.shutil, "which", lambda name: None if name == "chromedriver" else f"/usr/bin/{name}")
    assert browser.install() == 7


def test_without_the_rights_to_install_the_command_is_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.install() == 1
    assert browser.INSTALL in capsys.readouterr().err
