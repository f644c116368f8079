"""The controlled arm: one HTTP service, four execution models, nothing else that differs."""
