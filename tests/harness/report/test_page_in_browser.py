"""The page in a browser: quiet, self-contained, and no wider than a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from synthetic_runs import THREADS, Pod, published

from harness import report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
REQUIRED = "HARNESS_REQUIRE_BROWSER"  # CI sets it: there, no browser is a failure
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
LONG = "unbroken" * 40


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    pool = replace(THREADS, w_s=2.0, window_s=8.0)
    published(results, replace(pool, rate_rps=97))
    published(results, replace(pool, rate_rps=120, regime="saturated"))
    hostile = Pod(
        target=HOSTILE, model=HOSTILE, options={HOSTILE: LONG}, scenario=HOSTILE, w_s=2.0, window_s=8.0
    )
    published(results, replace(hostile, rate_rps=60, description=LONG, notes=(HOSTILE,)))
    published(results, replace(hostile, repeat=1, rate_rps=60), discarded=HOSTILE)
    return next(path for path in report.generate(results) if path.suffix == ".html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if REQUIRED not in os.environ:
        if not CHROMIUM.exists():
            pytest.skip(f"no {CHROMIUM} here")
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_opens_well(
    browser: Browser, page_file: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    for details in page.query_selector_all("details"):
        details.evaluate("element => element.open = true")

    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    images = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
    assert len(images) > 4
    assert all(images)
    assert page.evaluate("document.scripts.length") == 0
    styled = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert styled == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 26)")
    if width == 360:  # a table is wider than a phone, and scrolls inside its own box
        boxes = page.evaluate(
            "[...document.querySelectorAll('.box')].map(box => [box.scrollWidth, box.clientWidth])"
        )
        assert any(inner > outer for inner, outer in boxes)
    context.close()


def test_headings_lead_to_themselves(browser: Browser, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.click("nav a[href='#how-to-read']")
    assert page.evaluate("document.querySelector(':target').textContent").startswith("How to read")
    assert page.evaluate("document.querySelector(':target').getBoundingClientRect().top") < 200
    page.close()
