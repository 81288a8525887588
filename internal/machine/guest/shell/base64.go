package shell

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

func base64Text(_ context.Context, c *Call) int {
	f := c.flags()
	decode := f.BoolP("decode", "d", false, "")
	wrap := f.IntP("wrap", "w", 76, "")
	f.BoolP("ignore-garbage", "i", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	return c.inputs(args, func(_ string, data []byte) error {
		if *decode {
			out, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
			if err != nil {
				c.Fail("invalid input")
				return err
			}
			_, err = c.Stdout.Write(out)
			return err
		}
		text := base64.StdEncoding.EncodeToString(data)
		for *wrap > 0 && len(text) > *wrap {
			if _, err := fmt.Fprintln(c.Stdout, text[:*wrap]); err != nil {
				return err
			}
			text = text[*wrap:]
		}
		if *wrap > 0 {
			text += "\n"
		}
		_, err := io.WriteString(c.Stdout, text)
		return err
	})
}
