package shell_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The texts and statuses are those of shadow-utils 4.9 and of passwd 0.80 on Amazon Linux 2023. No test may run the
// real tools, which would change this machine.
func TestAccounts(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
		status             int
	}{
		{"useradd", "useradd -m -s /sbin/nologin -c 'An app' app; tail -1 /etc/passwd; id app; ls -ld /home/app | cut -d' ' -f1,3,4", "app:x:1001:1001:An app:/home/app:/sbin/nologin\nuid=1001(app) gid=1001(app) groups=1001(app)\ndrwx------ app app\n", 0},
		{"a system user", "useradd -r -M daemon2; id -u daemon2; test -d /home/daemon2 || echo none", "999\nnone\n", 0},
		{"twice", "useradd ec2-user", "useradd: user 'ec2-user' already exists\n", 9},
		{"a number that is taken", "useradd -u 1000 x", "useradd: UID 1000 is not unique\n", 4},
		{"a bad name", "useradd 'a:b'", "useradd: invalid user name 'a:b': use --badname to ignore\n", 3},
		{"a group that is none", "useradd -G none x; getent passwd x; groupadd none; useradd -g none -G none x && id -gn x", "useradd: group 'none' does not exist\nnone\n", 0},
		{"more groups", "groupadd -g 990 docker; groupadd audio; usermod -aG docker,audio ec2-user; id -nG ec2-user; groups ec2-user; usermod -G audio ec2-user; id -Gn ec2-user; getent group docker audio", "ec2-user docker audio\nec2-user : ec2-user docker audio\nec2-user audio\ndocker:x:990:\naudio:x:1001:ec2-user\n", 0},
		{"usermod", "usermod -s /bin/sh -d /srv -c x ec2-user; getent passwd 1000; usermod none", "ec2-user:x:1000:1000:x:/srv:/bin/sh\nusermod: user 'none' does not exist\n", 6},
		{"passwd", "echo 'ec2-user:secret' | chpasswd; passwd -S ec2-user; passwd -l ec2-user; passwd -S ec2-user; grep -c secret /etc/shadow; passwd -u ec2-user; passwd -d root; passwd -S root; passwd -l none", "ec2-user PS\nLocking password for user ec2-user.\npasswd: Success\nec2-user LK\n0\nUnlocking password for user ec2-user.\npasswd: Success\nRemoving password for user root.\npasswd: Success\nroot NP\npasswd: Unknown user name 'none'.\n", 1},
		{"userdel", "useradd gone; userdel -r gone; getent passwd gone; getent group gone; ls /home; userdel gone", "ec2-user\nuserdel: user 'gone' does not exist\n", 6},
		{"groupadd", "groupadd a; groupadd a; groupadd -f a && groupdel a; groupdel a", "groupadd: group 'a' already exists\ngroupdel: group 'a' does not exist\n", 6},
		{"hosts", "echo '10.0.0.1 db db.local # it' > /etc/hosts; getent hosts db.local; getent hosts none", "10.0.0.1        db db.local\n", 2},
		{"new files", "su ec2-user -c 'mkdir /tmp/d; echo x > /tmp/d/f; ln -s f /tmp/d/l; sudo touch /tmp/d/r; sudo -nu root touch /tmp/d/s; stat -c %U /tmp/d/s'; stat -c '%U' /tmp/d /tmp/d/f /tmp/d/l /tmp/d/r; touch /tmp/mine; stat -c %U /tmp/mine", "root\nec2-user\nec2-user\nec2-user\nroot\nroot\n", 0},
		{"chown", "touch /tmp/f; chmod 4755 /tmp/f; chown ec2-user: /tmp/f; stat -c '%U:%G %a' /tmp/f; groupadd -g 50 web; chgrp web /tmp/f; chown :root /tmp/f; stat -c %G /tmp/f; chown none /tmp/f", "ec2-user:ec2-user 755\nroot\nchown: invalid user: 'none'\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, res, err := run(t, newFS(t), tc.script)
			if diff := cmp.Diff(tc.want, out); diff != "" || err != nil || res.Status != tc.status {
				t.Errorf("%v, status %d, want %d\n%s", err, res.Status, tc.status, diff)
			}
		})
	}
}
