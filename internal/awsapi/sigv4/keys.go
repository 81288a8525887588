package sigv4

import "sync"

// maxKeys bounds each of a keyCache's two generations.
const maxKeys = 2048

// A keyCache caches derived signing keys. They are valid for a day, and deriving one takes four HMACs. Keys not used
// for a generation are dropped.
type keyCache struct {
	mu       sync.Mutex
	cur, old map[keyID][]byte
}

type keyID struct{ secret, date, region, service string }

func (c *keyCache) derive(secret, date, region, service string) []byte {
	id := keyID{secret, date, region, service}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.cur[id]; ok {
		return k
	}
	k, ok := c.old[id]
	if !ok {
		k = deriveKey(secret, date, region, service)
	}
	if c.cur == nil || len(c.cur) >= maxKeys {
		c.old, c.cur = c.cur, make(map[keyID][]byte)
	}
	c.cur[id] = k
	return k
}

func deriveKey(secret, date, region, service string) []byte {
	k := sign([]byte("AWS4"+secret), date)
	k = sign(k, region)
	k = sign(k, service)
	return sign(k, terminator)
}
