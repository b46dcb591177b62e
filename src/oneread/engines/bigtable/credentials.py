"""The credentials of calls to Bigtable itself: what Google's own search order finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import google.auth
import grpc
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.grpc import AuthMetadataPlugin
from google.auth.transport.requests import Request

from oneread.errors import InvalidUrl

_SCOPES: Final = (
    "https://www.googleapis.com/auth/bigtable.data",
    "https://www.googleapis.com/auth/bigtable.admin.table",
)


def find_credentials() -> Callable[[], Any]:
    """Finds credentials, and returns what makes TLS with a token for each call of them.

    Raises InvalidUrl where there are none. Looking for them may ask Google's metadata server, for some seconds.
    """
    try:
        found, _project = google.auth.default(scopes=_SCOPES)
    except GoogleAuthError as error:
        raise InvalidUrl(
            "no credentials for Bigtable: run `gcloud auth application-default login`, name a file of them in"
            " GOOGLE_APPLICATION_CREDENTIALS, or name an emulator in BIGTABLE_EMULATOR_HOST",
            error=str(error),
        ) from error

    def made() -> Any:
        plugin: Any = AuthMetadataPlugin(found, Request())  # type: ignore[no-untyped-call]
        tokens = grpc.metadata_call_credentials(plugin)
        return grpc.composite_channel_credentials(grpc.ssl_channel_credentials(), tokens)

    return made
