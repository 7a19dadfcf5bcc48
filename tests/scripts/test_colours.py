# SPDX-License-Identifier: Apache-2.0
"""Series of pictures and pages can be told apart with each kind of colour blindness, and by their form where colours cannot.

Colour blindness: Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
deficiency" (IEEE TVCG 15, 2009), table of matrices at severity 1, of linear RGB. Distance: CIE 1976 in L*a*b*, D65
(IEC 61966-2-1 for sRGB).
"""
import itertools
import math
import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SEEN_AS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
GREY = ((0.2126, 0.7152, 0.0722),) * 3
DIFFERENT = 10  # CIE 1976; 2.3 is just noticeable between large areas side by side


def linear(colour):
    shares = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]


def lab(rgb):
    rgb = [min(1, max(0, c)) for c in rgb]
    to_xyz = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
    xyz = [sum(m * c for m, c in zip(row, rgb)) for row in to_xyz]
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
         for t in (v / white for v, white in zip(xyz, (0.95047, 1, 1.08883)))]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def seen(colour, matrix):
    rgb = linear(colour)
    return lab([sum(m * c for m, c in zip(row, rgb)) for row in matrix])


def distance(a, b, matrix):
    return math.dist(seen(a, matrix), seen(b, matrix))


def js_list(name):
    text = (TOP / "src/report/page.js").read_text()
    return re.findall(r'"([^"]+)"', re.search(rf"const {name} = \[(.*?)\];\n", text, re.DOTALL).group(1))


def palettes():
    """name -> the colours of the styles from 0, and the marker and dash of a style."""
    text = (TOP / "src/figure/gnuplot_text.c").read_text()
    colours = re.findall(r'"(#[0-9A-F]{6})"', text)
    markers, filled = js_list("MARKERS"), re.search(r"filled\[\] = \{(.*?)\}", text).group(1).split(",")
    dashes = (TOP / "src/report/page.js").read_text().split("const DASHES = [[")[1].split("]];")[0].split("], [")
    return {
        "plot": (colours, lambda s: (filled[(s + s // 5) % 5], s % 5)),
        "page": (js_list("LIGHT"), lambda s: (markers[s % len(markers)], dashes[s % len(dashes)])),
        "page, dark": (js_list("DARK"), lambda s: (markers[s % len(markers)], dashes[s % len(dashes)])),
    }


class Colours(unittest.TestCase):
    def test_the_measures_are_right(self):
        self.assertEqual([round(x) for x in lab(linear("#ff0000"))], [53, 80, 67])  # known L*a*b* of sRGB's red
        red, brown = "#ff0000", "#806000"
        self.assertLess(distance(red, brown, SEEN_AS["protanopia"]), distance(red, brown, SEEN_AS["all colours"]) / 2)

    def test_colours_differ_for_each_kind_of_vision(self):
        for name, (colours, _) in palettes().items():
            self.assertEqual(len(colours), 16, name)
            for kind, matrix in SEEN_AS.items():
                for a, b in itertools.combinations(colours, 2):
                    with self.subTest(palette=name, vision=kind, a=a, b=b):
                        self.assertGreaterEqual(distance(a, b, matrix), DIFFERENT)

    def test_lines_differ_in_form_without_colour(self):
        for name, (_, form) in palettes().items():
            self.assertEqual(len({form(style) for style in range(24)}), 24, name)

    def test_fills_differ_in_pattern_or_grey(self):
        text = (TOP / "src/figure/gnuplot_bars.c").read_text()
        patterns = re.search(r"patterns\[\] = \{(.*?)\}", text).group(1).split(", ")
        turn = int(re.search(r"series->style % (\d+);", text).group(1))
        self.assertEqual((len(patterns), len(set(patterns))), (turn - 1, turn - 1))  # the last is faint instead
        colours, _ = palettes()["plot"]
        for a, b in itertools.combinations(range(len(colours)), 2):
            with self.subTest(a=a, b=b):
                if a % turn == b % turn:
                    self.assertGreaterEqual(distance(colours[a], colours[b], GREY), DIFFERENT)

    def test_colours_stand_out_from_the_ground(self):
        for name, (colours, _) in palettes().items():
            ground = "#16161a" if "dark" in name else "#ffffff"
            for colour in colours:
                for kind, matrix in {**SEEN_AS, "grey": GREY}.items():
                    with self.subTest(palette=name, vision=kind, colour=colour):
                        self.assertGreaterEqual(distance(colour, ground, matrix), 25)


if __name__ == "__main__":
    unittest.main()
