"""A page uses nothing but what the site brings; the browser sees to it."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

# What someone who got words into a page would try.
INTRUDERS = {
    "script-src-elem": """{
        const script = document.createElement("script");
        script.text = "window.intruder = 1";
        document.body.append(script);
    }""",
    "script-src-attr": """document.body.insertAdjacentHTML("beforeend",
        "<p onclick='window.intruder = 1'></p>");
        document.body.lastChild.click()""",
    "style-src-attr": """document.body.insertAdjacentHTML("beforeend",
        "<p style='position: fixed'></p>")""",
    "img-src": "new Image().src = 'https://elsewhere.invalid/pixel.png'",
    "connect-src": "fetch('https://elsewhere.invalid/').catch(() => 0)",
    "form-action": """{
        const form = document.createElement("form");
        form.action = "https://elsewhere.invalid/";
        document.body.append(form);
        form.submit();
    }""",
}


def test_every_page_obeys_from_a_folder(
    browser: Browser, html: Path, pages: list[str]
) -> None:
    """Each page has a policy, and opened as a file nothing breaks it."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for name in pages:
        page.goto((html / name).as_uri(), wait_until="load")

        assert page.locator("meta[http-equiv]").count() == 1, name
        assert page.locator("h1").last.is_visible(), name
    page.close()

    assert [text for text in said if "Security Policy" in text] == []


@pytest.mark.parametrize("rule", INTRUDERS)
def test_an_intruder_is_refused(
    browser: Browser, site: str, rule: str
) -> None:
    """What a page did not bring is not run, shown, asked for or sent."""
    page: Page = browser.new_page()
    page.goto(f"{site}problems/split_merge_round_trip.html")
    page.evaluate(
        """() => {
            window.refused = new Promise((done) =>
                document.addEventListener(
                    "securitypolicyviolation",
                    (event) => done(event.effectiveDirective),
                ),
            );
        }"""
    )
    page.evaluate(INTRUDERS[rule])

    assert page.evaluate("window.refused") == rule
    assert page.evaluate("window.intruder") is None
    page.close()
