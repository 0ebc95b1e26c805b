// SHA-256 (FIPS 180-4), since C has none: an id is the hash of a volume's name. Apart because it knows no storage.
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

// The hash of `length` bytes.
void sha256(const uint8_t *message, size_t length, uint8_t hash[SHA256_BYTES]);

#endif
