"""Rows of published measurements as measured runs: the parts of scripts/rows-to-jobs.

`command` reads files and writes lines; `convert` takes one row through the parts below it, each of which writes its keys of
the job on a `draft.Draft` and says what it assumed where the row leaves them open."""
