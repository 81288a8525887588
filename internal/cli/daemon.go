package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// infoFile is where a running daemon says how to reach it.
func infoFile(dataDir string) string { return filepath.Join(dataDir, "daemon.json") }

// WriteInfo records a running daemon in its data folder, for its owner only.
func WriteInfo(info DaemonInfo) error {
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	tmp := infoFile(info.DataDir) + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, infoFile(info.DataDir))
}

// RemoveInfo takes the record of a daemon away when it ends.
func RemoveInfo(dataDir string) { os.Remove(infoFile(dataDir)) }

// errNotRunning says that no daemon uses the data folder.
var errNotRunning = errors.New("no Drydock is running")

// readInfo returns the daemon of the data folder. A record whose process is gone
// (kill -9) counts as none.
func (o *globalOptions) readInfo() (DaemonInfo, error) {
	b, err := os.ReadFile(infoFile(o.dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return DaemonInfo{}, o.notRunning()
	}
	if err != nil {
		return DaemonInfo{}, fmt.Errorf("reading the daemon's record: %w", err)
	}
	var info DaemonInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return DaemonInfo{}, fmt.Errorf("%s: %w", infoFile(o.dataDir), err)
	}
	if !alive(info.PID) || !own(info) {
		return DaemonInfo{}, o.notRunning()
	}
	return info, nil
}

// Ping is what GET /_drydock/ping answers.
type Ping struct {
	PID int `json:"pid"`
}

// pingPatience is how long a daemon may take to say that it is there; one that hangs
// says nothing, and has to be stopped all the same.
const pingPatience = 3 * time.Second

// own tells the recorded daemon from a stranger that got its process ID after a
// crash: the daemon answers on its endpoint, or at least does not refuse.
func own(info DaemonInfo) bool {
	var p Ping
	ctx, cancel := context.WithTimeout(context.Background(), pingPatience)
	defer cancel()
	err := call(ctx, info, http.MethodGet, "ping", nil, nil, &p)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	return err != nil || p.PID == info.PID
}

func (o *globalOptions) notRunning() error {
	return withHint(fmt.Errorf("%w on %s", errNotRunning, o.dataDir), "drydock up -d"+dataDirFlag(o.dataDir))
}

func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !zombie(pid)
}

// zombie reports whether a process has ended and nobody has waited for it, as happens
// in containers whose first process waits for none. Only Linux tells.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	name := bytes.LastIndexByte(b, ')') // the program's name may hold anything
	return err == nil && name >= 0 && bytes.HasPrefix(b[name+1:], []byte(" Z"))
}

// An answerError is what the daemon says in place of an answer.
type answerError struct {
	status int
	said   string
}

func (e *answerError) Error() string { return e.said }

// call asks one of the daemon's own pages and decodes its JSON answer into out,
// if out is not nil.
func call(ctx context.Context, info DaemonInfo, method, path string, query url.Values, in, out any) error {
	u := info.URL + "/_drydock/" + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return withHint(fmt.Errorf("the daemon (process %d) does not answer: %w", info.PID, err), fmt.Sprintf("drydock down%[1]s && drydock up -d%[1]s", dataDirFlag(info.DataDir)))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("reading the daemon's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		if said := string(bytes.TrimSpace(b)); said != "" {
			return &answerError{resp.StatusCode, said}
		}
		return withHint(fmt.Errorf("the daemon (process %d) answers %s", info.PID, resp.Status), "drydock status"+dataDirFlag(info.DataDir))
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = b
		return nil
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
