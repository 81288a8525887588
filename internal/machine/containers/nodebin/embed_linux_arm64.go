package nodebin

import "embed"

//go:embed bin/linux-arm64
var embedded embed.FS
