package ami

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// An ec2MetadataOption is an option of ec2-metadata: its short and long form, the key that it prints, and the path
// that it queries.
type ec2MetadataOption struct {
	short           byte
	long, key, path string
}

// https://github.com/amazonlinux/amazon-ec2-utils/blob/main/ec2-metadata
var ec2Metadata = []ec2MetadataOption{
	{'a', "ami-id", "ami-id", "meta-data/ami-id"},
	{'l', "ami-launch-index", "ami-launch-index", "meta-data/ami-launch-index"},
	{'m', "ami-manifest-path", "ami-manifest-path", "meta-data/ami-manifest-path"},
	{'n', "ancestor-ami-ids", "ancestor-ami-ids", "meta-data/ancestor-ami-ids"},
	{'Z', "availability-zone-id", "availability-zone-id", "meta-data/placement/availability-zone-id"},
	{'D', "aws-domain", "aws-domain", "meta-data/services/domain"},
	{'b', "block-device-mapping", "block-device-mapping", "meta-data/block-device-mapping/"},
	{'i', "instance-id", "instance-id", "meta-data/instance-id"},
	{'t', "instance-type", "instance-type", "meta-data/instance-type"},
	{'h', "local-hostname", "local-hostname", "meta-data/local-hostname"},
	{'o', "local-ipv4", "local-ipv4", "meta-data/local-ipv4"},
	{'k', "kernel-id", "kernel-id", "meta-data/kernel-id"},
	{'z', "availability-zone", "placement", "meta-data/placement/availability-zone"},
	{'R', "region", "region", "meta-data/placement/region"},
	{'P', "partition", "partition", "meta-data/services/partition"},
	{'c', "product-codes", "product-codes", "meta-data/product-codes"},
	{'p', "public-hostname", "public-hostname", "meta-data/public-hostname"},
	{'v', "public-ipv4", "public-ipv4", "meta-data/public-ipv4"},
	{'u', "public-keys", "public-keys", "meta-data/public-keys/"},
	{'r', "ramdisk-id", "ramdisk-id", "meta-data/ramdisk-id"},
	{'e', "reservation-id", "reservation-id", "meta-data/reservation-id"},
	{'s', "security-groups", "security-groups", "meta-data/security-groups"},
	{'d', "user-data", "user-data", "user-data"},
	{'g', "tags", "tags", "meta-data/tags/instance/"},
}

// ec2MetadataCommand is Amazon Linux's program for querying the metadata service
// without HTTP.
func (m *Machine) ec2MetadataCommand(ctx context.Context, c *shell.Call) int {
	var wanted []int
	quiet := false
	all := len(c.Args) == 1
	for _, arg := range c.Args[1:] {
		long, isLong := strings.CutPrefix(arg, "--")
		short, isShort := strings.CutPrefix(arg, "-")
		switch {
		case long == "quiet" && isLong:
			quiet = true
		case long == "all" && isLong:
			all = true
		case isLong:
			i := slices.IndexFunc(ec2Metadata, func(o ec2MetadataOption) bool { return o.long == long })
			if i < 0 {
				return ec2MetadataUsage(c.Stderr, "unrecognized option '--"+long+"'")
			}
			wanted = append(wanted, i)
		case isShort:
			for _, s := range []byte(short) {
				i := slices.IndexFunc(ec2Metadata, func(o ec2MetadataOption) bool { return o.short == s })
				if i < 0 {
					return ec2MetadataUsage(c.Stderr, "invalid option -- '"+string(s)+"'")
				}
				wanted = append(wanted, i)
			}
		}
	}
	token, err := m.metadata(ctx, http.MethodPut, "latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "900")
	if err != nil || token == "" {
		fmt.Fprintln(c.Stderr, "[ERROR] Could not get IMDSv2 token. Instance Metadata might have been disabled or this is not an EC2 instance.")
		return 1
	}
	ask := func(name string) string {
		text, err := m.metadata(ctx, http.MethodGet, "latest/"+name, "X-aws-ec2-metadata-token", token)
		if err != nil {
			return ""
		}
		return strings.TrimRight(text, "\n")
	}
	if all {
		wanted = wanted[:0]
		for i := range ec2Metadata {
			wanted = append(wanted, i)
		}
	}
	for _, i := range wanted {
		printEC2Metadata(c.Stdout, ec2Metadata[i].key, ec2Metadata[i].path, quiet, ask)
	}
	return 0
}

func ec2MetadataUsage(w io.Writer, what string) int {
	fmt.Fprintf(w, "ec2-metadata: %s\nTerminating...\n", what)
	return 1
}

// printEC2Metadata prints one value, or all values in a folder.
func printEC2Metadata(w io.Writer, key, name string, quiet bool, ask func(string) string) {
	folder := strings.HasSuffix(name, "/")
	if !quiet {
		fmt.Fprint(w, key+": ")
		if folder {
			fmt.Fprintln(w)
		}
	}
	text := ask(name)
	switch {
	case text == "":
		fmt.Fprintln(w, "not available")
	case !folder:
		fmt.Fprintln(w, text)
	default:
		for entry := range strings.FieldsSeq(text) {
			if key == "public-keys" {
				printPublicKey(w, name, entry, quiet, ask)
				continue
			}
			if !quiet || key == "tags" {
				fmt.Fprint(w, "\t "+entry+": ")
			}
			fmt.Fprintln(w, ask(name+entry))
		}
	}
}

// printPublicKey prints the key that a line such as 0=my-key refers to.
func printPublicKey(w io.Writer, folder, entry string, quiet bool, ask func(string) string) {
	index, key, _ := strings.Cut(entry, "=")
	format := ask(folder + index + "/")
	if !quiet {
		fmt.Fprintf(w, "keyname:%s\nindex:%s\nformat:%s\nkey:(begins from next line)\n", key, index, format)
	}
	fmt.Fprintln(w, ask(folder+index+"/"+format))
}
