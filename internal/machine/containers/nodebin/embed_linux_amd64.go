package nodebin

import "embed"

//go:embed bin/linux-amd64
var embedded embed.FS
