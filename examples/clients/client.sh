#!/bin/sh
# A streamed answer with curl.
set -eu
curl -sSN --fail-with-body "${OVERDRAFT_URL:-http://127.0.0.1:8080}/v1/chat/completions" \
    -H 'content-type: application/json' \
    -H "authorization: Bearer ${OVERDRAFT_KEY:-unused}" \
    -d '{
        "model": "'"${OVERDRAFT_MODEL:-overdraft-target}"'",
        "messages": [{"role": "user", "content": "What is a KV cache?"}],
        "stream": true,
        "max_tokens": 64
    }'
