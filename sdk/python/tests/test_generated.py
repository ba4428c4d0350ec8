"""Versions, and the runtime types of the generated files."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from unittest import TestCase

from everloop import VERSION, events, models
from everloop.versions import compare_versions

ROOT = Path(__file__).resolve().parents[3]


class GeneratedTest(TestCase):
    def test_the_sdk_has_the_version_of_the_service(self) -> None:
        found = re.search(r'^var Version = "(.+)"', (ROOT / "internal/release/release.go").read_text(), re.MULTILINE)
        assert found
        self.assertEqual(VERSION, found[1])

    def test_types_can_be_resolved_at_run_time(self) -> None:
        for module in (events, models):
            types = [one for one in vars(module).values() if typing.is_typeddict(one)]
            self.assertGreater(len(types), 20)
            for one in types:
                typing.get_type_hints(one, vars(module))

    def test_versions_are_ordered_by_their_numbers_and_a_pre_release_is_before_its_release(self) -> None:
        ordered = ["1", "2608.0.2", "2610.0.0-beta.1", "2610.0.0-beta.10", "2610.0.0", "v2611.0.0", "2611.0.10"]
        for i, a in enumerate(ordered):
            for j, b in enumerate(ordered):
                self.assertEqual(compare_versions(a, b), (i > j) - (i < j), f"{a} and {b}")
