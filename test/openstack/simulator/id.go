package simulator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// newUUID makes an ID as Nova and Neutron write them.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	return formatUUID(b[:])
}

// newHexID makes an ID as Keystone writes them.
func newHexID() string { return strings.ReplaceAll(newUUID(), "-", "") }

// derivedUUID gives things that are not kept as state, such as subnets, an ID that stays the same.
func derivedUUID(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return formatUUID(sum[:16])
}

func derivedHexID(of ...string) string { return strings.ReplaceAll(derivedUUID(of...), "-", "") }

func formatUUID(b []byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// newMAC makes an address with Neutron's default prefix.
func newMAC() string {
	var b [3]byte
	rand.Read(b[:])
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", b[0], b[1], b[2])
}
