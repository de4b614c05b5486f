"""A panel's view in a real browser with a stand-in for Jupyter's model: seconds, no server, no kernel."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

expect.set_options(timeout=60_000)  # 5 s of Playwright are short next to other tests

# What anywidget hands to a view: get, set, save_changes, send, on and off; what was saved and sent is kept, `tell` is a message.
LOAD = """async ([esm, css, state]) => {
  const listeners = {};
  const model = { saved: [], sent: [], get: (key) => state[key],
    set: (key, value) => { if (state[key] === value) return; state[key] = value;
      [...(listeners["change:" + key] || []), ...(listeners["change"] || [])].forEach((listener) => listener()); },
    save_changes: () => model.saved.push(structuredClone(state)), send: (message) => model.sent.push(message),
    on: (event, listener) => (listeners[event] ??= []).push(listener),
    off: (event, listener) => { listeners[event] = (listeners[event] || []).filter((other) => other !== listener); },
    tell: (message) => (listeners["msg:custom"] || []).forEach((listener) => listener(message)),
    listening: () => Object.values(listeners).flat().length };
  window.model = model;  // of the last view; each view's own is among them
  (window.models ??= []).push(model);
  for (const [key, value] of Object.entries(state)) {  // bytes arrive as they do from Python
    if (value?.base64 === undefined) continue;
    state[key] = new DataView(Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0)).buffer);
  }
  const style = document.createElement("style");
  style.textContent = css;
  document.head.append(style);
  const view = (await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })))).default;
  const el = document.createElement("div");
  document.body.append(el);
  window.cleanup = await view.render({ model, el });
}"""


class View:
    """A panel in a page: change its traits as Python would, and see what it saved and sent."""

    def __init__(self, page: Any, panel: type, state: dict[str, Any], *, is_first: bool = True) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        if is_first:
            page.goto("about:blank")
        page.evaluate(LOAD, [str(panel._esm), panel._css, given(panel, state)])
        self._model = f"models[{page.evaluate('models.length') - 1}]"

    def set(self, **traits: Any) -> None:
        for name, value in traits.items():
            self.page.evaluate(f"([name, value]) => {self._model}.set(name, value)", [name, value])

    def tell(self, message: dict[str, Any]) -> None:
        """A message of Python's."""
        self.page.evaluate(f"(message) => {self._model}.tell(message)", message)

    @property
    def saved(self) -> list[dict[str, Any]]:
        return self.page.evaluate(f"{self._model}.saved")

    @property
    def sent(self) -> list[dict[str, Any]]:
        return self.page.evaluate(f"{self._model}.sent")

    def texts(self, test_id: str) -> list[str]:
        return self.page.get_by_test_id(test_id).all_text_contents()


def given(panel: type, state: dict[str, Any]) -> dict[str, Any]:
    """What a view gets of a panel with these traits, and its others from the start."""
    defaults = {name: trait.default() for name, trait in panel.class_own_traits(sync=True).items()}
    return {name: _sendable(value) for name, value in {**defaults, **state}.items()}


def saved(view: View, test_id: str, name: str) -> tuple[int, int]:
    """Click what saves a picture under this name: its width and height, of which not every pixel may be the same."""
    with view.page.expect_download() as download:
        view.page.get_by_test_id(test_id).first.click()
    assert download.value.suggested_filename == name
    png = Path(download.value.path()).read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(png) > 3000  # a sheet of one colour is smaller
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def _sendable(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


@pytest.fixture
def show(page: Any) -> Any:
    """`show(PanelClass, trait=value, …)` gives the View; a view that raises in the page fails the test.

    With `beside=True` it stands in the page of the one before.
    """
    views: list[View] = []

    def open_view(panel: type, *, beside: bool = False, **state: Any) -> View:
        views.append(View(page, panel, state, is_first=not beside))
        return views[-1]

    yield open_view
    assert [error for view in views for error in view.errors] == []
