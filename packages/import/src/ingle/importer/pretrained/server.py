"""What a web server says of its files: whether they are there, and their checksums."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..errors import WeightsError

SUMS = "SHA256SUMS"
"""The file of `sha256sum *`, which a folder may have."""
_LARGEST_SUMS = 1 << 20
_REDIRECTS = 5
_NAMED = re.compile(r"-([0-9a-f]{8,64})\.\w+$")
"""How PyTorch's files end: with the beginning of their SHA-256."""

Checksum = tuple[str, str]
"""The keyword of `ingle.dataset.download`, and its value."""


class Server:
    """A folder on a web server.

    Args:
        url: of the folder.
        checksums: SHA-256 by the name of a file; what is here is not asked of the server.
        timeout: seconds without an answer after which it is given up.
    """

    def __init__(self, url: str, checksums: Mapping[str, str], timeout: float) -> None:
        self.url = url.rstrip("/") + "/"
        self.given = dict(checksums)
        self.timeout = timeout
        self._sums: dict[str, str] | None = None

    def checksum(self, name: str) -> Checksum | None:
        """What is known of a file, or None if the server does not have it.

        Raises:
            WeightsError: the server has it, and nobody says what is in it; or it does not answer.
        """
        if name in self.given:
            return "sha256", self.given[name]
        if name in self.sums():
            return "sha256", self.sums()[name]
        found = self._head(name)
        if found is None:
            return None
        for tag in found:
            if len(tag) == 64:
                return "sha256", tag
            if len(tag) == 40:
                return "git_sha1", tag
        in_name = _NAMED.search(name)
        if in_name:
            return "sha256", in_name[1]
        raise WeightsError(
            f"{self.url}{name}: neither the server nor the name gives a checksum, and weights that "
            f'nobody checked are not loaded; pass checksums={{"{name}": SHA-256}}, or put a '
            f"{SUMS} beside it"
        )

    def sums(self) -> dict[str, str]:
        """What the folder's `SHA256SUMS` says; nothing if it has none."""
        if self._sums is None:
            answer = self._open(SUMS, "GET")
            text = "" if answer is None else answer[1].decode("utf-8", "replace")
            lines = re.findall(r"^([0-9a-fA-F]{64}) [ *](.+?)\r?$", text, re.MULTILINE)
            self._sums = {name: digits.lower() for digits, name in lines}
        return self._sums

    def _head(self, name: str) -> list[str] | None:
        """The hexadecimal tags of a file, the best first; None if it is not there."""
        answer = self._open(name, "HEAD")
        if answer is None:
            return None
        tags = [h.get(key, "") for key in ("X-Linked-ETag", "ETag") for h in answer[0]]
        return re.findall(r"(?<![0-9a-f])[0-9a-f]{40,64}(?![0-9a-f])", " ".join(tags))

    def _open(self, name: str, method: str) -> tuple[list[Any], bytes] | None:
        """The headers of the answer and of what it was redirected from, and what it holds.

        A hub redirects to where a large file lies, and only the first answer has its checksum.
        """
        url = urljoin(self.url, name)
        seen: list[Any] = []
        for _ in range(_REDIRECTS):
            try:
                request = urllib.request.Request(url, method=method)
                with _OPENER.open(request, timeout=self.timeout) as answer:
                    return [*seen, answer.headers], answer.read(_LARGEST_SUMS)
            except urllib.error.HTTPError as error:
                headers, code = error.headers, error.code
                error.close()
                if code in (301, 302, 303, 307, 308) and headers.get("Location"):
                    url = urljoin(url, headers["Location"])
                    if urlsplit(url).scheme not in ("http", "https"):
                        raise WeightsError(f"{self.url}{name}: it is redirected to {url}") from None
                    seen.append(headers)
                elif code in (404, 410):
                    return None
                else:
                    raise WeightsError(
                        f"{url}: the server answered {code} {error.reason}"
                    ) from None
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                raise WeightsError(
                    f"{url}: {reason}. Check the connection, or download the folder by hand and "
                    "pass its path"
                ) from None
        raise WeightsError(f"{self.url}{name}: it is redirected more than {_REDIRECTS} times")


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows nothing by itself."""

    def redirect_request(self, *given: Any, **more: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Straight)


def parts_of(index: Mapping[str, Any], path: object) -> Iterator[str]:
    """The files that an index of a sharded model names, each once.

    Raises:
        WeightsError: it is no index, or names what is not beside it.
    """
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(p, str) for p in places.values()):
        raise WeightsError(f"{path}: it has no weight_map from names to files")
    for name in dict.fromkeys(places.values()):
        if not name or name in (".", "..") or re.search(r"[\\/:\0]", name):
            raise WeightsError(f"{path}: it names {name!r}, which is no file beside it")
        yield name
