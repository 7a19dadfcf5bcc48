# SPDX-License-Identifier: Apache-2.0
"""Predicted speeds of published training runs are as near as docs/notes/training.md says. HEADROOM: the command."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
import docs_command
import docs_training
from docs_training import median_speed, share_in_interval, share_within, speeds, speeds_of

MEDIANS = {**dict.fromkeys([*docs_training.MPT_RUNS.values(), docs_training.OTHER_RUNS], 0.95), docs_training.FP8_RUNS: 0.9}


class TrainingSpeeds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        docs_command.use(pathlib.Path(os.environ["HEADROOM"]))

    def test_the_median_of_each_group_is_near_what_was_measured(self):
        self.assertEqual(len(speeds()), 121)
        for group, least in MEDIANS.items():
            self.assertTrue(least <= median_speed(speeds_of(group)) <= 1.1, group)

    def test_nine_of_ten_runs_are_within_a_quarter(self):
        for group in MEDIANS:
            self.assertGreaterEqual(share_within(speeds_of(group)), 0.9, group)

    def test_the_interval_of_a_step_holds_nine_of_ten_runs(self):
        for group in MEDIANS:
            self.assertGreaterEqual(share_in_interval(speeds_of(group)), 0.9, group)

    def test_the_error_does_not_grow_with_the_length(self):
        for length in {speed.length for speed in speeds()}:
            self.assertTrue(0.95 <= median_speed([speed for speed in speeds() if speed.length == length]) <= 1.1, length)


if __name__ == "__main__":
    unittest.main()
