package shell

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func stat(_ context.Context, c *Call) int {
	f := c.flags()
	format := f.StringP("format", "c", "", "")
	follow := f.BoolP("dereference", "L", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		look := c.FS.Lstat
		if *follow {
			look = c.FS.Stat
		}
		i, err := look(c.Path(name))
		if err != nil {
			status = c.Fail("cannot statx '%s': %s", name, reason(err))
			continue
		}
		uid, gid := 0, 0
		if v, ok := i.(*vfs.Info); ok {
			uid, gid = v.UID, v.GID
		}
		text := *format
		if text == "" {
			text = "  File: %n\n  Size: %s\nAccess: (%a)  Uid: %u"
		}
		fmt.Fprintln(c.Stdout, strings.NewReplacer("%n", name, "%s", strconv.FormatInt(i.Size(), 10), "%a", strconv.FormatUint(uint64(vfs.UnixMode(i.Mode())), 8), "%A", listedMode(i.Mode()), "%F", kindOf(i),
			"%U", c.userName(uid), "%G", c.groupName(gid), "%u", strconv.Itoa(uid), "%g", strconv.Itoa(gid), "%Y", strconv.FormatInt(i.ModTime().Unix(), 10)).Replace(text))
	}
	return status
}

// kindOf returns stat's word for the file's type.
func kindOf(i fs.FileInfo) string {
	switch {
	case i.IsDir():
		return "directory"
	case i.Mode()&fs.ModeSymlink != 0:
		return "symbolic link"
	case i.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}
