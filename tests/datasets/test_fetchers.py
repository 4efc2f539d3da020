"""Fetchers against a local server that speaks OpenML's interface, and without any server."""

import hashlib
import json
import threading
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pandas as pd
import pytest

from sktopk.datasets import fetch_cifar100, fetch_fashion_mnist, fetch_letter

FETCHERS = {
    fetch_letter: ("letter", 6, ["A", "B"]),
    fetch_fashion_mnist: ("Fashion-MNIST", 40996, [0, 1]),
    fetch_cifar100: ("CIFAR-100", 41983, [0, 99]),
}
X = np.array([[1.0, 2.5, 0.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.5, 0.0, 0.0]])


def pages(name, data_id, labels):
    """What the server has of a data set, by path."""
    columns = [f"@ATTRIBUTE pixel{i} REAL" for i in range(3)]
    rows = [",".join([*map(str, x), str(labels[i % 2])]) for i, x in enumerate(X)]
    nominal = ",".join(map(str, labels))
    lines = ["@RELATION small", *columns, f"@ATTRIBUTE class {{{nominal}}}", "@DATA", *rows]
    arff = "\n".join(lines).encode()
    path = f"/data/v1/download/{data_id}/{name}.arff"
    description = {
        "id": str(data_id),
        "name": name,
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "description": "A few rows.",
        "url": f"https://www.openml.org{path}",
        "file_id": str(data_id),
        "default_target_attribute": "class",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    features = [
        {
            "index": str(i),
            "name": f"pixel{i}" if i < 3 else "class",
            "data_type": "numeric" if i < 3 else "nominal",
            "is_target": str(i == 3).lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for i in range(4)
    ]
    qualities = [{"name": "NumberOfInstances", "value": str(len(X))}]
    api = "/api/v1/json/data"
    return {
        f"{api}/{data_id}": json.dumps({"data_set_description": description}).encode(),
        f"{api}/features/{data_id}": json.dumps({"data_features": {"feature": features}}).encode(),
        f"{api}/qualities/{data_id}": json.dumps(
            {"data_qualities": {"quality": qualities}}
        ).encode(),
        path: arff,
    }


class Asked(list):
    """The paths that a server was asked for, and what it has."""

    content: dict


@pytest.fixture
def server():
    """A server on this machine that takes every request to a secure one."""
    asked = Asked()
    asked.content = {}
    for values in FETCHERS.values():
        asked.content |= pages(*values)

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            found = self.path in asked.content
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(asked.content.get(self.path, b""))

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    class Here(urllib.request.HTTPSHandler):
        def https_open(self, request):
            return plain.open(f"http://127.0.0.1:{server.server_port}{request.selector}")

    no_proxy = urllib.request.ProxyHandler({})
    urllib.request.install_opener(urllib.request.build_opener(no_proxy, Here))
    yield asked
    urllib.request.install_opener(None)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def offline(monkeypatch):
    """No connection at all, and no waiting for one."""

    class Nowhere(urllib.request.HTTPSHandler):
        def https_open(self, request):
            raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    no_proxy = urllib.request.ProxyHandler({})
    urllib.request.install_opener(urllib.request.build_opener(no_proxy, Nowhere))
    yield
    urllib.request.install_opener(None)


@pytest.mark.parametrize("fetch", FETCHERS, ids=lambda f: f.__name__)
def test_fetched_once_and_then_from_the_cache(fetch, server, tmp_path):
    labels = FETCHERS[fetch][2]
    data = fetch(data_home=tmp_path)
    np.testing.assert_allclose(data.data, X)
    assert data.target.tolist() == [labels[i % 2] for i in range(4)]
    assert data.details["name"] == FETCHERS[fetch][0]
    n_asked = len(server)
    assert n_asked == 4
    again, target = fetch(data_home=tmp_path, return_X_y=True)
    np.testing.assert_allclose(again, X)
    np.testing.assert_array_equal(target, data.target)
    frame = fetch(data_home=tmp_path, as_frame=True).frame
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (4, 4)
    assert len(server) == n_asked
    fetch(data_home=tmp_path, cache=False)
    assert len(server) > n_asked


@pytest.mark.parametrize("fetch", FETCHERS, ids=lambda f: f.__name__)
def test_offline_it_says_what_is_missing_and_where(fetch, offline, tmp_path):
    name, data_id, _ = FETCHERS[fetch]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(OSError, match=f"^{name}, OpenML data set {data_id}, is not in") as e:
            fetch(data_home=tmp_path)
        message = str(e.value)
        assert str(tmp_path / "openml") in message
        assert "no route to host" in message
        assert ("sktopk.datasets.load_pmlb('letter')" in message) == (name == "letter")
        with pytest.raises(OSError, match=r"is not cached \(cache=False\)"):
            fetch(data_home=tmp_path, cache=False)


def test_offline_the_cache_is_enough(server, tmp_path):
    before = fetch_letter(data_home=tmp_path)
    server.clear()
    urllib.request.install_opener(urllib.request.OpenerDirector())  # which can open nothing
    after = fetch_letter(data_home=tmp_path)
    np.testing.assert_array_equal(before.data, after.data)
    assert not server


def test_a_broken_server_is_an_error_with_a_way_out(server, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for path in [path for path in server.content if path.endswith("CIFAR-100.arff")]:
        del server.content[path]
    with (
        pytest.warns(UserWarning, match="A network error occurred"),
        pytest.raises(OSError, match=r"CIFAR-100, OpenML data set 41983.*404.*copy the folder"),
    ):
        fetch_cifar100(data_home=tmp_path)
