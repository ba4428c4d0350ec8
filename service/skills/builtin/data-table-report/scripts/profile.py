#!/usr/bin/env python3
"""Profiles a table in one pass: profile.py FILE [--sep S] [--json]

Reads CSV, TSV and JSON lines (.jsonl, .ndjson) of any length in bounded memory.
"""
import argparse
import collections
import csv
import datetime
import io
import json
import math
import sys

EMPTY = {"", "na", "n/a", "null", "none", "nan", "-", "?"}
DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
MOST_DISTINCT = 20_000  # values that are remembered for each column


class Column:
    def __init__(self, name):
        self.name = name
        self.rows = self.empty = self.padded = self.comma_numbers = 0
        self.kinds = collections.Counter()
        self.values = collections.Counter()
        self.overflow = False
        self.low = self.high = None
        self.total = 0.0
        self.total_of_squares = 0.0
        self.longest = 0

    def add(self, raw):
        self.rows += 1
        text = "" if raw is None else str(raw)
        if text != text.strip():
            self.padded += 1
            text = text.strip()
        if text.lower() in EMPTY:
            self.empty += 1
            return
        self.longest = max(self.longest, len(text))
        if text in self.values or len(self.values) < MOST_DISTINCT:
            self.values[text] += 1
        else:
            self.overflow = True
        number = as_number(text)
        if number is not None:
            self.kinds["number"] += 1
            self.total += number
            self.total_of_squares += number * number
            self.low = number if self.low is None else min(self.low, number)
            self.high = number if self.high is None else max(self.high, number)
            return
        if "," in text and as_number(text.replace(".", "").replace(",", ".")) is not None:
            self.comma_numbers += 1
        self.kinds["date" if as_date(text) else "text"] += 1

    def report(self):
        filled = self.rows - self.empty
        kind = self.kinds.most_common(1)[0][0] if self.kinds else "empty"
        out = {
            "column": self.name, "kind": kind, "rows": self.rows, "empty": self.empty,
            "distinct": f">{MOST_DISTINCT}" if self.overflow else len(self.values),
            "frequent": self.values.most_common(3), "notes": [],
        }
        count = self.kinds["number"]
        if kind == "number":
            mean = self.total / count
            out.update(min=self.low, max=self.high, mean=mean, sum=self.total,
                       deviation=math.sqrt(max(self.total_of_squares / count - mean * mean, 0)))
        if len(self.kinds) > 1:
            out["notes"].append("mixed: " + ", ".join(f"{n} {k}" for k, n in self.kinds.most_common()))
        if self.padded:
            out["notes"].append(f"{self.padded} with spaces around")
        if self.comma_numbers:
            out["notes"].append(f"{self.comma_numbers} look like numbers with a decimal comma")
        if filled and not self.overflow and len(self.values) == filled and filled > 1:
            out["notes"].append("unique: may be a key")
        if filled > 1 and len(self.values) == 1:
            out["notes"].append("constant")
        return out


def as_number(text):
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def as_date(text):
    for form in DATES:
        try:
            datetime.datetime.strptime(text[:19].rstrip("Z"), form)
            return True
        except ValueError:
            continue
    return False


def rows_of(path, separator):
    """Gives dictionaries, and under None what a row has beyond its columns."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as source:
        if path.endswith((".jsonl", ".ndjson")):
            for line in source:
                if line.strip():
                    row = json.loads(line)
                    yield row if isinstance(row, dict) else {"value": row}
            return
        start = source.read(65536)
        source.seek(0)
        if separator is None:
            try:
                separator = csv.Sniffer().sniff(start, delimiters=",;\t|").delimiter
            except csv.Error:
                separator = "\t" if path.endswith(".tsv") else ","
        yield from csv.DictReader(source, delimiter=separator)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--sep", help="separator of columns")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    csv.field_size_limit(10_000_000)

    columns, seen = {}, collections.Counter()
    count = ragged = duplicates = 0
    try:
        for row in rows_of(args.file, args.sep):
            count += 1
            if row.pop(None, None) is not None or any(v is None for v in row.values()):
                ragged += 1
            for name, value in row.items():
                columns.setdefault(name, Column(name)).add(value)
            key = hash(tuple(str(v) for v in row.values()))
            if key in seen:
                duplicates += 1
            elif len(seen) < 1_000_000:
                seen[key] = 1
    except (OSError, ValueError, csv.Error) as err:
        sys.exit(f"profile: {args.file}: {err}")

    profile = {
        "file": args.file, "rows": count, "columns": [c.report() for c in columns.values()],
        "duplicate_rows": duplicates, "ragged_rows": ragged,
    }
    if args.json:
        print(json.dumps(profile, ensure_ascii=False, indent=1))
        return
    out = io.StringIO()
    print(f"# {args.file}\n\n{count} rows, {len(columns)} columns; {duplicates} duplicate rows, "
          f"{ragged} rows with too few or too many fields.\n", file=out)
    print("| column | kind | empty | distinct | range or frequent values | notes |\n|---|---|---|---|---|---|", file=out)
    for c in profile["columns"]:
        if c["kind"] == "number":
            what = f"{c['min']:g} to {c['max']:g}, mean {c['mean']:.6g}, deviation {c['deviation']:.6g}, sum {c['sum']:.10g}"
        else:
            what = ", ".join(f"{value[:30]} ({n})" for value, n in c["frequent"])
        cells = [c["column"], c["kind"], c["empty"], c["distinct"], what, "; ".join(c["notes"])]
        print("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |", file=out)
    print(out.getvalue(), end="")


if __name__ == "__main__":
    main()
