"""The documentation site: `python -m ci.site` builds it in out/site. CONTRIBUTING.md has the rules for pages."""
