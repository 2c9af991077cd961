"""Reads /metrics as its users do: PyPI's prometheus-client parses the text on stdin as OpenMetrics.
Tells each family with its type, its unit and its samples as JSON."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    samples = [[sample.name, sample.labels] for sample in family.samples]
    families[family.name] = {
        "type": family.type,
        "unit": family.unit,
        "help": family.documentation,
        "samples": samples,
        "exemplars": sum(sample.exemplar is not None for sample in family.samples),
    }
json.dump(families, sys.stdout)
