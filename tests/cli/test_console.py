"""`oneread console`: a process that serves a store to a browser, and what it refuses."""

import signal

import httpx
import pytest

from tests.cli import notes


@pytest.fixture
def served(process):
    """Runs the command, and gives the line that it printed; it ends with Ctrl-C, without a word."""
    running = []

    def serve(*options):
        running.append(process("console", "--port", "0", *options))
        return running[-1].stdout.readline()

    serve.running = running
    yield serve
    for each in [each for each in running if each.poll() is None]:
        each.send_signal(signal.SIGINT)
        _out, err = each.communicate(timeout=60)
        assert (each.returncode, err) == (0, "")


def test_a_link_with_a_token_is_printed_and_opens_the_store(served):
    line = served()
    link = line.split()[0]
    assert line.endswith("read-only; Ctrl-C ends it\n")
    assert link.startswith("http://127.0.0.1:")
    with httpx.Client(follow_redirects=True) as client:
        page = client.get(link)
        assert page.status_code == 200
        assert "token=" not in str(page.url)
        assert "read-only" in page.text
        bare = link.partition("?")[0]
        assert client.get(bare, headers={"host": "attacker.example"}).status_code == 400
    assert httpx.get(bare).status_code == 401


def test_it_ends_without_a_word_while_a_browser_has_a_live_page_open(served):
    with httpx.Client(follow_redirects=True, timeout=30) as client:
        link = served().split()[0]
        client.get(link)
        with client.stream("GET", f"{link.partition('?')[0]}tasks?live") as answer:
            lines = answer.iter_lines()  # without a name it would be closed, and the stream with it
            assert next(lines).startswith("data: ")
            (console,) = served.running
            console.send_signal(signal.SIGINT)
            _out, err = console.communicate(timeout=60)
    assert (console.returncode, err) == (0, "")


def test_with_personal_one_entity_may_be_shown_and_nothing_changed(served):
    with httpx.Client(follow_redirects=True) as client:
        link = served("--personal").split()[0]
        assert "read-only" in client.get(link).text
        assert client.post(f"{link.partition('?')[0]}entity/Note?key=1").text.count("this form is not one of") == 1
    with httpx.Client(follow_redirects=True) as client:
        link = served().split()[0]
        client.get(link)
        refused = client.post(f"{link.partition('?')[0]}entity/Note?key=1")
        assert (refused.status_code, "start it with --personal" in refused.text) == (403, True)


def test_with_write_it_may_write(served):
    with httpx.Client(follow_redirects=True) as client:
        assert "may write" in client.get(served("--write").split()[0]).text


def test_a_token_of_a_file_is_not_printed(served, tmp_path):
    file = tmp_path / "token"
    file.write_text("a token of some length\n")
    link = served("--token-file", str(file)).split()[0]
    assert "token" not in link
    assert httpx.get(link, params={"token": "a token of some length"}).status_code == 303


def test_json_has_the_link(served):
    assert served("--json").startswith('{"url":"http://127.0.0.1:')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "beyond this machine the console needs --token-file"),
        (["--proxy-user", "x-user"], "--proxy-user and --trusted come together"),
        (["--trusted", "10.0.0.0/8"], "--proxy-user and --trusted come together"),
        (["--proxy-user", "x", "--trusted", "10.0.0.0/8", "--token-file", "x"], "exclude each other"),
        (["--proxy-user", "x", "--trusted", "everywhere"], "expected networks"),
        (["--token-file", "/nowhere"], "the file of the token cannot be read"),
        (["--host", "203.0.113.1", "--proxy-user", "x", "--trusted", "10.0.0.0/8"], "cannot listen there"),
    ],
)
def test_what_is_refused_is_said(oneread, options, said):
    ran = oneread("console", *options)
    assert ran.code == 2
    assert said in ran.err


def test_what_is_not_installed_is_said(oneread, monkeypatch):
    monkeypatch.setattr("oneread.cli.console.find_spec", lambda name: None if name == "jinja2" else True)
    assert "pip install 'oneread[console]'" in oneread("console").err


def test_a_schema_that_the_store_does_not_have_shows_its_plan(process, tmp_path):
    url = f"lmdb://{tmp_path}/filled"  # a store in memory is another one in each process
    notes.fill(url)
    running = process("console", "--port", "0", "--schema", "tests.cli.notes:BEFORE", "--db", url)
    line = running.stdout.readline()
    assert "the schema differs from the store's" in line
    with httpx.Client(follow_redirects=True) as client:
        first = client.get(line.split()[0])
        assert first.status_code == 503
        assert "what it would change is under Schema" in first.text
        page = client.get(f"{line.partition('?')[0]}schema")
        assert page.status_code == 200
        assert "PersonByEmail" in page.text
        assert "not read any more, and written for older programs" in page.text
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=60)[1] == ""
