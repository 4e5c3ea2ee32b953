"""Validates bills of materials against the schema of CycloneDX: validate_sbom.py FILE..."""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    version = SchemaVersion.from_version(json.loads(text)["specVersion"])
    if error := JsonStrictValidator(version).validate_str(text):
        sys.exit(f"{path}: {error}")
    print(f"{path} is valid")
