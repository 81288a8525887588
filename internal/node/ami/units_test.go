package ami_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/catalog/images"
)

func TestUnits(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
		status             int
	}{
		{"the agent", "systemctl is-active amazon-ssm-agent && systemctl is-enabled amazon-ssm-agent; systemctl restart amazon-ssm-agent; systemctl show -p ActiveState,SubState --value amazon-ssm-agent", "active\nenabled\nactive\nrunning\n", 0},
		{"what is not there", "systemctl is-active none; systemctl is-enabled none; systemctl show -p LoadState none; systemctl cat none; systemctl is-active -q none || echo no", "inactive\nFailed to get unit file state for none.service: No such file or directory\nLoadState=not-found\nNo files found for none.service.\nno\n", 0},
		{"mask", "systemctl mask --now sshd; systemctl is-active sshd; systemctl is-enabled sshd; systemctl start sshd; systemctl unmask sshd; systemctl start sshd; systemctl is-active sshd", "Created symlink /etc/systemd/system/sshd.service → /dev/null.\ninactive\nmasked\nFailed to start sshd.service: Unit sshd.service is masked.\nRemoved \"/etc/systemd/system/sshd.service\".\nactive\n", 0},
		{"what starts at boot", "systemctl disable sshd; systemctl is-enabled sshd; systemctl is-active sshd; systemctl disable sshd; systemctl enable sshd; systemctl is-enabled sshd kubelet systemd-logind", "Removed \"/etc/systemd/system/multi-user.target.wants/sshd.service\".\ndisabled\nactive\nCreated symlink /etc/systemd/system/multi-user.target.wants/sshd.service → /usr/lib/systemd/system/sshd.service.\nenabled\ndisabled\nstatic\n", 1},
		{"kill", "kill -0 1; kill -HUP $(pgrep -x sshd); a=$(pidof sshd); sudo -u ec2-user kill $a 2>/tmp/x; sed 's/[0-9]//g' /tmp/x; kill -9 $a; kill $a 2>/tmp/x || echo gone; pkill -x sshd; systemctl is-active sshd; journalctl -u sshd -o cat; pkill none; echo $?; kill 77777; kill -DANCE 1; kill x",
			"kill: () - Operation not permitted\ngone\nactive\nStarted sshd.service - OpenSSH server daemon.\nStopped sshd.service - OpenSSH server daemon.\nStarted sshd.service - OpenSSH server daemon.\nStopped sshd.service - OpenSSH server daemon.\nStarted sshd.service - OpenSSH server daemon.\n1\nkill: (77777) - No such process\nkill: DANCE: invalid signal specification\nkill: x: arguments must be process or job IDs\n", 1},
		{"a verb", "systemctl dance sshd", "systemctl: Unknown command verb dance.\n", 1},
		{"no unit", "systemctl start", "systemctl: Too few arguments.\n", 1},
		{"the machine", "systemctl is-system-running; systemctl get-default; systemctl list-units --type=service --state=failed", "running\nmulti-user.target\n  UNIT LOAD ACTIVE SUB DESCRIPTION\n\n0 loaded units listed.\n", 0},
		{"the journal", "journalctl -u containerd -o cat; journalctl -u sshd -u chronyd -n1 --no-pager -o cat; journalctl -u nope; journalctl --none", "Started containerd.service - containerd container runtime.\nStarted sshd.service - OpenSSH server daemon.\n-- No entries --\njournalctl: unrecognized option '--none'\n", 1},
		{"since an hour ago", "journalctl -S -1h -u sshd -o cat; journalctl --since '-1 hour' -u sshd -o cat", "Started sshd.service - OpenSSH server daemon.\nStarted sshd.service - OpenSSH server daemon.\n", 0},
		{"since", "journalctl -u sshd --since '1 hour ago' -o cat; journalctl -u sshd --since 2027-01-01; journalctl --since then", "Started sshd.service - OpenSSH server daemon.\n-- No entries --\njournalctl: Failed to parse timestamp: then\n", 1},
		{"short", "journalctl -u sshd", "Jan 02 03:04:05 ip-10-0-0-7 systemd[1]: Started sshd.service - OpenSSH server daemon.\n", 0},
		{"a unit of one's own", "printf '[Unit]\\nDescription=x\\n' > /etc/systemd/system/mine.service; systemctl daemon-reload; systemctl cat mine; systemctl enable --now mine; journalctl -u mine -o cat", "# /etc/systemd/system/mine.service\n[Unit]\nDescription=x\nCreated symlink /etc/systemd/system/multi-user.target.wants/mine.service → /etc/systemd/system/mine.service.\nStarted mine.service.\n", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, status := newWorld(t, images.AL2023).run(tc.script)
			if diff := cmp.Diff(tc.want, out); diff != "" || status != tc.status {
				t.Errorf("status %d, want %d\n%s", status, tc.status, diff)
			}
		})
	}
	if out, _ := newWorld(t, images.AL2).run("journalctl -u containerd -o cat"); out != "Started containerd container runtime.\n" {
		t.Errorf("Amazon Linux 2: %q", out)
	}
}

func TestLogs(t *testing.T) {
	w := newWorld(t, images.AL2023)
	w.NodeadmFailed(errors.New(`could not find "NodeConfig"`), false)
	out, _ := w.run("systemctl is-failed nodeadm-config; journalctl -u nodeadm-config -o cat | tail -n 6")
	want := `failed
info init/init.go:55 Checking user is root..
info init/init.go:65 Loading configuration.. {"configSource": "imds://user-data", "configCache": "/run/eks/nodeadm/config.json"}
fatal cli/main.go:35 Command failed {"error": "could not find \"NodeConfig\""}
nodeadm-config.service: Main process exited, code=exited, status=1/FAILURE
nodeadm-config.service: Failed with result 'exit-code'.
Failed to start nodeadm-config.service - EKS Nodeadm Config.
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	w.NodeadmDone()
	out, _ = w.run("journalctl -u nodeadm-run -o cat | tail -n 3; systemctl is-active nodeadm-run")
	if want := "info init/init.go:239 Running post-launch tasks.. {\"name\": \"kubelet\"}\ninfo init/init.go:243 Finished post-launch tasks {\"name\": \"kubelet\"}\nFinished nodeadm-run.service - EKS Nodeadm Run.\ninactive\n"; out != want {
		t.Error(cmp.Diff(want, out))
	}
	w.Klog("kubelet", 'E', "kubelet_node_status.go:108", "Unable to register node with API server", "err", "Unauthorized", "node", "n")
	if out, _ = w.run("journalctl -u kubelet -o cat"); !strings.HasPrefix(out, "E0102 03:04:05.000000    1") || !strings.HasSuffix(out, ` kubelet_node_status.go:108] "Unable to register node with API server" err="Unauthorized" node="n"`+"\n") {
		t.Errorf("%q", out)
	}
	w.IPAMDLog("error", `no "addresses"`)
	if out, _ = w.run("cat /var/log/aws-routed-eni/ipamd.log"); out != `{"level":"error","ts":"2026-01-02T03:04:05.000Z","caller":"ipamd/ipamd.go","msg":"no \"addresses\""}`+"\n" {
		t.Errorf("%q", out)
	}
	for range 1000 {
		w.IPAMDLog("error", strings.Repeat("x", 1000))
	}
	if i, err := w.FS.Stat("/var/log/aws-routed-eni/ipamd.log"); err != nil || i.Size() > 70<<10 {
		t.Errorf("%v, %v", i.Size(), err)
	}
}

// Plain Amazon Linux has nothing of a node's.
func TestPlainImage(t *testing.T) {
	w := newWorld(t, images.AL2023, func(w *world) { w.plain = true })
	w.NodeadmFailed(errors.New("no NodeConfig"), false)
	if out, _ := w.run("systemctl list-units --type=service --all | grep -E -c 'containerd|kubelet|nodeadm'; ps -e | grep -c containerd; systemctl is-active sshd; journalctl -u nodeadm-config"); out != "0\n0\nactive\n-- No entries --\n" {
		t.Error(out)
	}
}
