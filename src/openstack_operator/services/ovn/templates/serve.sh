#!/bin/sh
# Sourced by the scripts of servers that have something to do before they end: `before_end` is theirs.

# Starts the server; its process is $served.
serve() {
  trap 'before_end; kill -TERM "$served"' TERM
  "$@" &
  served=$!
}

# Ends with the server, and as it did.
serve_until_end() {
  # A trap ends a wait too.
  code=0
  wait "$served" || code=$?
  while kill -0 "$served" 2> /dev/null; do code=0; wait "$served" || code=$?; done
  exit "$code"
}
