/* HMAC (RFC 2104) with SHA-256 (FIPS 180-4). */
#include <stdint.h>
#include <string.h>

#include "xoe_r.h"

enum { kBlock = 64 };

struct sha256 {
  uint32_t state[8];
  unsigned char block[kBlock];
  size_t filled;
  uint64_t bytes;
};

static const uint32_t kStart[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate(uint32_t word, int by) { return word >> by | word << (32 - by); }

static inline uint32_t big_endian(const unsigned char* at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The word of a later round, in the place of the one of 16 rounds before. */
static inline uint32_t next_word(uint32_t* words, int i) {
  const uint32_t a = words[(i + 1) & 15], b = words[(i + 14) & 15];
  return words[i & 15] +=
         (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[(i + 9) & 15] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
}

/* A round. The state's words are passed in another order from round to round, so that none is copied. */
#define ROUND(a, b, c, d, e, f, g, h, i, word)                                                                   \
  do {                                                                                                           \
    const uint32_t first =                                                                                       \
        (h) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) + kRound[i] + (word); \
    (d) += first;                                                                                                \
    (h) = first + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b))));          \
  } while (0)
#define EIGHT_ROUNDS(i, word)                              \
  do {                                                     \
    ROUND(a, b, c, d, e, f, g, h, (i), word(i));           \
    ROUND(h, a, b, c, d, e, f, g, (i) + 1, word((i) + 1)); \
    ROUND(g, h, a, b, c, d, e, f, (i) + 2, word((i) + 2)); \
    ROUND(f, g, h, a, b, c, d, e, (i) + 3, word((i) + 3)); \
    ROUND(e, f, g, h, a, b, c, d, (i) + 4, word((i) + 4)); \
    ROUND(d, e, f, g, h, a, b, c, (i) + 5, word((i) + 5)); \
    ROUND(c, d, e, f, g, h, a, b, (i) + 6, word((i) + 6)); \
    ROUND(b, c, d, e, f, g, h, a, (i) + 7, word((i) + 7)); \
  } while (0)
#define GIVEN_WORD(i) words[i]
#define NEXT_WORD(i) next_word(words, i)

static void compress(uint32_t* state, const unsigned char* block) {
  uint32_t words[16];
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  EIGHT_ROUNDS(0, GIVEN_WORD);
  EIGHT_ROUNDS(8, GIVEN_WORD);
  for (int i = 16; i < 64; i += 16) {
    EIGHT_ROUNDS(i, NEXT_WORD);
    EIGHT_ROUNDS(i + 8, NEXT_WORD);
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void start(struct sha256* hash) {
  memcpy(hash->state, kStart, sizeof(kStart));
  hash->filled = 0;
  hash->bytes = 0;
}

static void add(struct sha256* hash, const void* data, size_t bytes) {
  const unsigned char* from = data;
  hash->bytes += bytes;
  while (bytes > 0) {
    if (hash->filled == 0 && bytes >= kBlock) {
      compress(hash->state, from);
      from += kBlock;
      bytes -= kBlock;
      continue;
    }
    const size_t room = kBlock - hash->filled, part = bytes < room ? bytes : room;
    memcpy(hash->block + hash->filled, from, part);
    hash->filled += part;
    from += part;
    bytes -= part;
    if (hash->filled == kBlock) {
      compress(hash->state, hash->block);
      hash->filled = 0;
    }
  }
}

static void finish(struct sha256* hash, unsigned char* digest) {
  static const unsigned char kPadding[kBlock] = {0x80};
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = (unsigned char)(hash->bytes * 8 >> (56 - 8 * i));
  add(hash, kPadding, 1 + (119 - hash->filled) % kBlock);
  add(hash, length, sizeof(length));
  for (int i = 0; i < XOE_SIGNATURE_BYTES; ++i) digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void add_key(struct sha256* hash, const unsigned char* key, unsigned char pad) {
  unsigned char block[kBlock];
  for (int i = 0; i < kBlock; ++i) block[i] = (i < XOE_KEY_BYTES ? key[i] : 0) ^ pad;
  add(hash, block, kBlock);
}

void xoe_sign(const unsigned char* key, const char* text, const unsigned char* data, size_t bytes,
              unsigned char* signature) {
  struct sha256 hash;
  unsigned char inner[XOE_SIGNATURE_BYTES];
  start(&hash);
  add_key(&hash, key, 0x36);
  add(&hash, text, strlen(text));
  add(&hash, data, bytes);
  finish(&hash, inner);
  start(&hash);
  add_key(&hash, key, 0x5c);
  add(&hash, inner, sizeof(inner));
  finish(&hash, signature);
}
