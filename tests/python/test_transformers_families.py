# SPDX-License-Identifier: Apache-2.0
"""Every family of causal language models of transformers beside eager, and the page that says what happens to each."""
import re
import sys
import unittest

import transformers

import families


def minor(version):
    return version.split(".")[:2]


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows, cls.page = families.rows(), families.written()

    def test_logits_and_greedy_tokens_are_those_of_eager(self):
        self.assertEqual({row.family: row.wrong for row in self.rows if row.wrong}, {})
        self.assertGreater(sum(row.plain == "used" for row in self.rows), 80)

    def test_the_page_says_what_happens_to_each(self):
        """A new release of transformers is no failure: what is different is said."""
        other = {row.family: row[:4] for row in self.rows if self.page.get(row.family) != row[:4]}
        if minor(transformers.__version__) == minor(families.written_version()):
            self.assertEqual({name: (row, self.page.get(name)) for name, row in other.items()}, {})
        elif other:
            print(f"transformers {transformers.__version__}: {families.PAGE.name} says otherwise of "
                  f"{', '.join(other)}; run tests/python/families.py --write", file=sys.__stderr__)

    def test_numbers_of_the_page_are_those_of_its_rows(self):
        states = [row[1] for row in self.page.values()]
        said = [int(number) for number in re.findall(r"\d+", families.PAGE.read_text().split("Of the ")[1])[:4]]
        self.assertEqual(said, [len(states), *(states.count(each) for each in ("used", "in part", "passed on"))])


if __name__ == "__main__":
    unittest.main()
