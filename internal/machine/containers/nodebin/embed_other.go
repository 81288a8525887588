//go:build !linux || (!amd64 && !arm64)

package nodebin

import "embed"

var embedded embed.FS // nothing: nodes that run containers need Linux
