"""Performance figures of the harness and of its servers, as ratios taken on one machine (`make perf`)."""
