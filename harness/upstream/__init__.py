"""The simulated upstream, a program of its own: vector database and LLM provider that answer after a delay.

    python -m harness.upstream --port 9000 --vector "20 ms" --llm "20 s" --metrics DIRECTORY

`delays` says how long, `app` what is answered and counted, `worker` is one process, `supervisor` all of them.
"""
