# SPDX-License-Identifier: Apache-2.0
"""The structure of an HTML report, read as a browser reads it."""
import base64
import hashlib
import json
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.problems = [], [], [], []
        self.scripts, self.styles, self.figures, self.ids, self.links = [], [], [], [], []
        self.policy = None
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"left open: {self.open}")

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        if len(values) != len(attributes):
            self.problems.append(f"<{tag}> repeats an attribute")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "srcset", "action", "style"):
                self.problems.append(f"<{tag}> has {name}={value}")
            if name == "href" and not value.startswith("#"):
                self.problems.append(f"<{tag}> leads to {value}")
        if "href" in values:
            self.links.append(values["href"][1:])
        if "id" in values:
            self.ids.append(values["id"])
        if values.get("http-equiv") == "Content-Security-Policy":
            if "script" in self.tags or "style" in self.tags:
                self.problems.append("the policy comes too late")
            self.policy = values["content"]
        if tag == "script":
            self.scripts.append((values.get("type", ""), ""))
        if tag == "style":
            self.styles.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes another element")

    def handle_comment(self, data):
        self.problems.append(f"a comment: {data[:60]}")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)
        elif self.open and self.open[-1] == "style":
            self.styles[-1] += data
        else:
            self.text.append(data)

    def words(self):
        return "".join(self.text)


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def problems_of(page):
    """What is wrong with a page, whatever it shows."""
    found = list(page.problems)

    def need(condition, words):
        if not condition:
            found.append(words)

    for tag in ("html", "head", "title", "body", "main", "h1"):
        need(page.tags.count(tag) == 1, f"{page.tags.count(tag)} <{tag}>")
    for tag in ("img", "svg", "iframe", "object", "link", "base", "form"):
        need(tag not in page.tags, f"a <{tag}>")
    programs = [text for kind, text in page.scripts if kind == ""]
    need(len(programs) == 2, f"{len(programs)} scripts")
    need({kind for kind, _ in page.scripts} <= {"", "application/json"}, "a script of another type")
    need(len(page.styles) == 1, f"{len(page.styles)} styles")
    need(page.policy and page.policy.startswith("default-src 'none';"), "no policy")
    allowed = (page.policy or "").split()
    need(not any("unsafe" in word or "http" in word or "*" in word for word in allowed), f"policy: {page.policy}")
    for text in programs + page.styles:
        need(hash_of(text) in [word.rstrip(";") for word in allowed], "the policy lacks the hash of " + text[:40])
    need(len(set(page.ids)) == len(page.ids), "an id twice")
    need(set(page.links) <= set(page.ids), f"links without a place: {set(page.links) - set(page.ids)}")
    need(page.tags.count("figure") == len(figures_of(page)), "a figure without its numbers")
    return found


def figures_of(page):
    return [json.loads(text) for kind, text in page.scripts if kind == "application/json"]
