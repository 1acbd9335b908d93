"""The built site, KITH_DOCS_SITE: links and headings that are there, and in Chromium its layout and its search."""

from __future__ import annotations

import html.parser
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import urllib.parse

import pytest

PROJECT = pathlib.Path(__file__).parents[2]
SITE = pathlib.Path(os.environ["KITH_DOCS_SITE"]).resolve()
PAGES = sorted(SITE.rglob("*.html"))
WIDTHS = (1280, 400)
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.text = set(), [], ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values["id"]} if "id" in values else set()
        self.links += [values[name] for name in ("href", "src") if values.get(name)]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def parsed():
    return {path: Page(path) for path in PAGES}


def test_every_page_is_there():
    made = {path.relative_to(SITE).as_posix() for path in PAGES}
    pages = {path.relative_to(PROJECT) for path in [*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md")]}
    assert len(pages) > 15
    for page in pages:
        assert str(page.with_suffix(".html")).replace("README", "index") in made
    headers = {header.name for header in (PROJECT / "include/kith").glob("*.hpp")} - {"kith.hpp"}
    assert {f"docs/cpp-api/{name.removesuffix('.hpp')}.html" for name in headers} <= made


def test_links_lead_somewhere(parsed):
    dead, looked = [], 0
    for path, page in parsed.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            looked += 1
            name = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or (name and target.suffix == ".html" and name not in parsed[target].ids):
                dead.append(f"{path.relative_to(SITE)}: {link}")
    assert not dead
    assert looked > 1000


def test_the_references_have_what_is_public(parsed):
    names = (PROJECT / "python/kith/__init__.py").read_text().split("__all__ = [")[1].split("]")[0]
    public = {name.strip(' ",\n') for name in names.split(",")} - {"", "__version__"}
    page = parsed[SITE / "docs/python-api.html"]
    assert len(public) > 40 and {f"kith.{name}" for name in public} <= page.ids
    assert "kith.Index.search" in page.ids and "kith.compat.faiss.IndexFlatL2.add" in page.ids
    assert ":func:" not in page.text and ":class:" not in page.text  # roles that were not understood
    vamana = parsed[SITE / "docs/cpp-api/vamana.html"].text
    assert "walks a graph" not in vamana and "Neighbors search(" in " ".join(vamana.split())


# For each page and width: what reaches beyond the window, and by what. Then one search. The server takes the outcome.
LOOK = """
<!doctype html><meta charset=utf-8><body><script>
const frame = document.createElement("iframe");
frame.style = "border:0;height:900px";
document.body.append(frame);
const open = (path, width) => new Promise(done => {
  frame.style.width = width + "px";
  frame.onload = () => requestAnimationFrame(() => requestAnimationFrame(done));
  frame.src = path;
});
const look = async () => {
  const seen = [];
  for (const width of WIDTHS) for (const path of PAGES) {
    await open(path, width);
    const root = frame.contentDocument.documentElement;
    const wide = root.scrollWidth > width ? [...root.querySelectorAll("article *")]
      .filter(e => e.getBoundingClientRect().right > width + 1).slice(-3).map(e => e.outerHTML.slice(0, 200)) : [];
    seen.push({path, width, reaches: root.scrollWidth, wide});
  }
  await open("search.html?q=certified", 1280);
  const page = frame.contentDocument;
  const finished = () => /finished/.test(page.querySelector(".search-summary")?.textContent);
  for (let tries = 0; tries < 600 && !finished(); ++tries) await new Promise(done => setTimeout(done, 100));
  const found = [...page.querySelectorAll("#search-results li > a")].map(a => a.getAttribute("href"));
  await fetch("seen", {method: "POST", body: JSON.stringify({seen, found})});
};
look();
</script>
"""


class Server(http.server.ThreadingHTTPServer):
    """The site, the page that looks at it, and what that has seen."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.outcome, self.missing, self.done = None, [], threading.Event()
        names = [path.relative_to(SITE).as_posix() for path in PAGES]
        self.look = LOOK.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGES", json.dumps(names))


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(SITE))

    def log_message(self, *_):
        pass

    def send_error(self, code, *_):
        self.server.missing.append(self.path)
        super().send_error(code)

    def do_GET(self):
        if self.path != "/look":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.look.encode())

    def do_POST(self):
        self.server.outcome = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here to look at the layout (Debian: apt-get install chromium)")
def test_nothing_overflows_and_the_search_finds(tmp_path):
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}",
             "--window-size=1400,1000", f"http://127.0.0.1:{server.server_address[1]}/look"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert server.done.wait(300), "the browser did not look at the pages within 5 minutes"
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    assert len(server.outcome["seen"]) == len(WIDTHS) * len(PAGES)
    assert [each for each in server.outcome["seen"] if each["reaches"] > each["width"]] == []
    found = set(server.outcome["found"])
    assert {"docs/python-api.html#kith.SearchStatistics.certified", "docs/vamana.html"} <= found
    assert not [link for link in found if link.startswith(("src/", "benchmarks/"))]  # sources are no pages
    assert [path for path in server.missing if "favicon" not in path] == []
