// Package gather collects the inventory of a machine as Systems Manager's agent does when it runs the action
// aws:softwareInventory. It runs the machine's own programs and reads its files. It does not store anything. Only package
// ssm imports it.
package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// An Item is what was found for one type of inventory.
type Item struct {
	Type, Schema string
	Captured     time.Time
	Content      []map[string]string
}

// A gatherer collects items. input is the input of the action that turns it on: the word Enabled, or what to look for.
type gatherer struct {
	input   string
	collect func(ctx context.Context, m machine.Machine, inputs map[string]string) ([]Item, error)
}

// gatherers are the agent's gatherers on Linux. On Linux, the agent skips services, Windows roles, Windows updates and the
// registry. Billing information is left out, because no image of Drydock has billing products.
// https://github.com/aws/amazon-ssm-agent/tree/mainline/agent/plugins/inventory/gatherers
var gatherers = []gatherer{
	{"applications", applications}, {"awscomponents", components}, {"networkconfig", network}, {"instancedetailedinformation", details}, {"files", files}, {"custominventory", custom},
}

// Collect returns what the gatherers find that the inputs of the action turn on.
func Collect(ctx context.Context, m machine.Machine, inputs map[string]string, now func() time.Time) ([]Item, error) {
	given := map[string]string{} // the agent ignores the case of names
	for name, value := range inputs {
		given[strings.ToLower(name)] = value
	}
	var out []Item
	for _, g := range gatherers {
		if v := given[g.input]; v != "Enabled" && (g.input != "files" || v == "") {
			continue
		}
		items, err := g.collect(ctx, m, given)
		if err != nil {
			return nil, fmt.Errorf("Encountered error while executing %s. Error - %w", g.input, err) //nolint:staticcheck // the agent's text
		}
		out = append(out, items...)
	}
	for i := range out {
		out[i].Captured = now().UTC()
	}
	return out, nil
}

// maxOutput bounds what a program may print, in bytes.
const maxOutput = 4 << 20

// A buffer keeps at most maxOutput bytes.
type buffer struct{ bytes.Buffer }

func (b *buffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, errors.New("the program printed too much")
	}
	return b.Buffer.Write(p)
}

// lines returns the lines that a script prints. As for the agent, a script that fails finds nothing.
func lines(ctx context.Context, m machine.Machine, script string) ([]string, error) {
	var out buffer
	status, err := machine.Run(ctx, m, machine.Command{Args: []string{"sh", "-c", script}, Stdout: &out})
	if err != nil || status != 0 || out.Len() == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), nil
}

// attributes are those of applications, in the order in which packages prints them.
var attributes = strings.Fields("Name Publisher Version Release Epoch InstalledTime ApplicationType Architecture URL Summary PackageId")

// packages prints the attributes of all packages, separated by tabs.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/plugins/inventory/gatherers/application/dataProvider_unix.go
const packages = `if command -v dpkg-query >/dev/null 2>&1; then ` +
	`dpkg-query -W -f='${Package}\t${Maintainer}\t${Version}\t\t\t\t${Section}\t${Architecture}\t${Homepage}\t${binary:Summary}\t${Package}_${Version}_${Architecture}.deb\n'; else ` +
	`rpm -qa --queryformat '%{NAME}\t%{VENDOR}\t%{VERSION}\t%{RELEASE}\t%{EPOCH}\t%{INSTALLTIME}\t%{GROUP}\t%{ARCH}\t%{URL}\t%{SUMMARY}\t%{SOURCERPM}\n'; fi`

const maxSummary = 100 // bytes

func installed(ctx context.Context, m machine.Machine) ([]map[string]string, error) {
	all, err := lines(ctx, m, packages)
	out := []map[string]string{}
	for _, l := range all {
		fields := strings.Split(l, "\t")
		if len(fields) != len(attributes) {
			continue
		}
		p := map[string]string{}
		for i, name := range attributes {
			if v := fields[i]; v != "" {
				p[name] = strings.ToValidUTF8(v[:min(len(v), maxSummary)], "")
			}
		}
		if p["Epoch"] == "(none)" {
			delete(p, "Epoch")
		}
		if sec, err := strconv.ParseInt(p["InstalledTime"], 10, 64); err == nil {
			p["InstalledTime"] = time.Unix(sec, 0).UTC().Format(time.RFC3339)
		}
		if p["Architecture"] == "amd64" {
			p["Architecture"] = "x86_64"
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b map[string]string) int {
		return strings.Compare(strings.ToLower(a["Name"]), strings.ToLower(b["Name"]))
	})
	return out, err
}

func applications(ctx context.Context, m machine.Machine, _ map[string]string) ([]Item, error) {
	all, err := installed(ctx, m)
	return []Item{{Type: "AWS:Application", Schema: "1.1", Content: all}}, err
}

// components are the packages that the agent knows to be AWS's own.
func components(ctx context.Context, m machine.Machine, _ map[string]string) ([]Item, error) {
	all, err := installed(ctx, m)
	all = slices.DeleteFunc(all, func(p map[string]string) bool {
		name := strings.ToLower(p["Name"])
		return name != "amazon-ssm-agent" && name != "aws-cfn-bootstrap" && !strings.Contains(name, "aws-apitools-") && !strings.Contains(name, "aws-amitools-")
	})
	return []Item{{Type: "AWS:AWSComponent", Schema: "1.0", Content: all}}, err
}

func network(ctx context.Context, m machine.Machine, _ map[string]string) ([]Item, error) {
	out := []map[string]string{}
	links, err := lines(ctx, m, "ip -o link show")
	if err != nil {
		return nil, err
	}
	for _, l := range links { // 2: ens5: <BROADCAST,…> … link/ether 0a:… brd …
		f := strings.Fields(l)
		at := slices.Index(f, "link/ether")
		if len(f) < 2 || at < 0 || at+1 == len(f) {
			continue // the loopback interface has no such address
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
		out = append(out, map[string]string{"Name": name, "MacAddress": f[at+1]})
	}
	addresses, err := lines(ctx, m, "ip -o addr show")
	for _, l := range addresses { // 2: ens5    inet 10.0.0.9/24 brd …
		f := strings.Fields(l)
		if len(f) < 4 {
			continue
		}
		kind := map[string]string{"inet": "IPV4", "inet6": "IPV6"}[f[2]]
		if i := slices.IndexFunc(out, func(n map[string]string) bool { return n["Name"] == f[1] }); i >= 0 && kind != "" {
			out[i][kind], _, _ = strings.Cut(f[3], "/") // the last one, as for the agent
		}
	}
	return []Item{{Type: "AWS:Network", Schema: "1.0", Content: out}}, err
}

func details(ctx context.Context, m machine.Machine, _ map[string]string) ([]Item, error) {
	all, err := lines(ctx, m, "lscpu")
	if len(all) == 0 {
		return nil, err
	}
	have := map[string]string{}
	for _, l := range all {
		if name, value, ok := strings.Cut(l, ":"); ok {
			have[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	d := map[string]string{"CPUModel": have["Model name"], "CPUs": have["CPU(s)"], "CPUSockets": have["Socket(s)"], "CPUSpeedMHz": "", "CPUCores": "", "CPUHyperThreadEnabled": "", "OSServicePack": ""}
	if mhz, err := strconv.ParseFloat(have["CPU MHz"], 64); err == nil {
		d["CPUSpeedMHz"] = strconv.Itoa(int(mhz))
	}
	sockets, err1 := strconv.Atoi(have["Socket(s)"])
	cores, err2 := strconv.Atoi(have["Core(s) per socket"])
	if err1 == nil && err2 == nil {
		d["CPUCores"] = strconv.Itoa(sockets * cores)
	}
	if threads, err := strconv.Atoi(have["Thread(s) per core"]); err == nil {
		d["CPUHyperThreadEnabled"] = strconv.FormatBool(threads > 1)
	}
	return []Item{{Type: "AWS:InstanceDetailedInformation", Schema: "1.0", Content: []map[string]string{d}}}, err
}

// Bounds of the files that are described, and of the folders that are read to find them.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/inventory-file-and-registry.html
const (
	maxFiles = 500
	maxScan  = 5000
)

func files(ctx context.Context, m machine.Machine, inputs map[string]string) ([]Item, error) {
	var filters []struct {
		Path      string
		Pattern   []string
		Recursive bool
	}
	if err := json.Unmarshal([]byte(inputs["files"]), &filters); err != nil {
		return nil, err
	}
	disk, err := m.Files()
	if err != nil {
		return nil, err
	}
	out, seen, scanned := []map[string]string{}, map[string]bool{}, 0
	for _, f := range filters {
		folders := []string{path.Clean("/" + f.Path)}
		for len(folders) > 0 {
			dir := folders[0]
			folders = folders[1:]
			entries, err := disk.ReadDir(dir)
			if err != nil {
				continue // as for the agent: it does not exist
			}
			for _, e := range entries {
				if scanned++; scanned > maxScan || ctx.Err() != nil {
					return nil, errors.New("Directory Scan Limit Exceeded") //nolint:staticcheck // the agent's text
				}
				full := path.Join(dir, e.Name())
				if e.IsDir() {
					if f.Recursive {
						folders = append(folders, full)
					}
					continue
				}
				fits := slices.ContainsFunc(f.Pattern, func(p string) bool { ok, err := path.Match(p, e.Name()); return ok && err == nil })
				info, err := disk.Stat(full)
				if !fits || seen[full] || err != nil {
					continue
				}
				seen[full] = true
				out = append(out, map[string]string{"Name": e.Name(), "Size": strconv.FormatInt(info.Size(), 10), "ModificationTime": info.ModTime().UTC().Format(time.RFC3339), "InstalledDir": dir})
				if len(out) > maxFiles {
					return nil, errors.New("File Count Limit Exceeded") //nolint:staticcheck // the agent's text
				}
			}
		}
	}
	return []Item{{Type: "AWS:File", Schema: "1.0", Content: out}}, nil
}

const maxCustom = 20 // files

// custom reads the types of inventory that files in a folder of the machine describe. A file that is not valid is skipped.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/inventory-custom.html
func custom(_ context.Context, m machine.Machine, inputs map[string]string) ([]Item, error) {
	disk, err := m.Files()
	if err != nil {
		return nil, err
	}
	dir := inputs["custominventorydirectory"]
	if dir == "" {
		dir = "/var/lib/amazon/ssm/" + m.Instance().ID + "/inventory/custom"
	}
	entries, err := disk.ReadDir(path.Clean(dir))
	if err != nil {
		return nil, nil // it does not exist
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return path.Ext(e.Name()) != ".json" })
	if len(entries) > maxCustom {
		return nil, fmt.Errorf("Total custom inventory file count (%d) exceed limit (%d)", len(entries), maxCustom) //nolint:staticcheck // the agent's text
	}
	var out []Item
	for _, e := range entries {
		b, err := disk.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if i, ok := customItem(b); ok && !slices.ContainsFunc(out, func(o Item) bool { return o.Type == i.Type }) {
			out = append(out, i)
		}
	}
	return out, nil
}

// customItem reads a description, whose content is an entry or a list of entries.
func customItem(b []byte) (Item, bool) {
	var d struct {
		TypeName, SchemaVersion string
		Content                 json.RawMessage
	}
	if json.Unmarshal(b, &d) != nil || !strings.HasPrefix(d.TypeName, "Custom:") || len(d.TypeName) > 100 || !strings.Contains(d.SchemaVersion, ".") {
		return Item{}, false
	}
	i := Item{Type: d.TypeName, Schema: d.SchemaVersion}
	var one map[string]string
	if json.Unmarshal(d.Content, &one) == nil && one != nil {
		i.Content = []map[string]string{one}
		return i, true
	}
	return i, json.Unmarshal(d.Content, &i.Content) == nil && i.Content != nil
}
