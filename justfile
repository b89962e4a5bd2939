# Recipes only call scripts; everything works without just.

# Everything CI checks
check:
    ./scripts/test

# Two agents pass a turn
demo:
    cargo run -- demo

# A hub in this terminal
hub *ARGS:
    cargo run -q -- hub {{ARGS}}

# Latency and rate beside the machine's own limits
bench *ARGS:
    ./scripts/bench {{ARGS}}

# The hub is killed again and again under load
torture *ARGS:
    ./scripts/torture {{ARGS}}

# Made-up bytes for every decoder
fuzz *ARGS:
    ./scripts/fuzz {{ARGS}}
