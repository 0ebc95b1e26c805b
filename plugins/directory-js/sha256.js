// SHA-256 (FIPS 180-4) of a text in UTF-8, as hexadecimal digits: the JavaScript engine in the component has no cryptography.

// The first 32 bits of the fractional part of a root of each of the first primes (4.2.2, 5.3.3).
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((prime) => n % prime)) PRIMES.push(n);
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const CONSTANTS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

const turn = (word, bits) => (word >>> bits) | (word << (32 - bits));

// unescape undoes encodeURIComponent's percent signs, byte by byte: one character for each byte of UTF-8.
const bytesOf = (text) => Array.from(unescape(encodeURIComponent(text)), (byte) => byte.charCodeAt());

// One block of 16 words (6.2.2).
function absorb(hash, block) {
  const w = [...block];
  for (let t = 16; t < 64; t++) {
    const [a, b] = [w[t - 15], w[t - 2]];
    const small = (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    w[t] = (w[t - 16] + w[t - 7] + small) | 0;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let t = 0; t < 64; t++) {
    const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + CONSTANTS[t] + w[t];
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  return [a, b, c, d, e, f, g, h].map((word, i) => (word + hash[i]) | 0);
}

export function sha256(text) {
  const bytes = bytesOf(text);
  const bits = bytes.length * 8;
  bytes.push(0x80);
  while (bytes.length % 64 !== 56) bytes.push(0);
  bytes.push(...[0, 0, 0, 0], ...[24, 16, 8, 0].map((shift) => (bits >>> shift) & 0xff)); // names are far shorter than 2^32 bits
  let hash = START;
  for (let at = 0; at < bytes.length; at += 64) {
    const word = (i) => bytes.slice(at + 4 * i, at + 4 * i + 4).reduce((sum, byte) => (sum << 8) | byte, 0);
    hash = absorb(hash, Array.from({ length: 16 }, (_, i) => word(i)));
  }
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
