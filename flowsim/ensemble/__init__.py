"""Very many starts: keys, batches, shards, summaries."""
