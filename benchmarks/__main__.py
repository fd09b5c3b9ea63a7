"""Every benchmark that keeps its results: python -m benchmarks [--toy] [--out FOLDER]."""

from benchmarks import blow_up_single, harness

MEASURES = {"blow_up_single": blow_up_single.measure}

if __name__ == "__main__":
    for name, measure in MEASURES.items():
        harness.run(name, measure, __doc__)
