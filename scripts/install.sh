#!/bin/sh
# Copies the programs that `cargo build --release` made to DIR (default ~/.local/bin)
# and makes the state directory that the systemd units write to. Nothing is enabled.
set -eu
bin=${1:-$HOME/.local/bin}
src=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/release
mkdir -p "$bin"
for program in mws mws-proxy mws-ingest mws-promote mws-index mws-report; do
	if [ ! -x "$src/$program" ]; then
		echo "install.sh: $src/$program is not there; run \`cargo build --release\` first" >&2
		exit 1
	fi
	# A running program cannot be overwritten, but its name can be given to another file.
	cp "$src/$program" "$bin/.$program.new"
	mv -f "$bin/.$program.new" "$bin/$program"
done
mkdir -p -m 700 "$HOME/.local/state/mcp-working-set"
echo "installed mws and mws-* in $bin" >&2
