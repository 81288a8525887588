// Web is what the image of the container tests runs: a server, a client of one or of AWS, something that looks around, or what
// its arguments say.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "get":
		res, err := http.Get(args[1])
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(os.Stdout, res.Body)
		return err
	case len(args) == 3 && args[0] == "get": // from a port
		port, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
		res, err := client.Get(args[1])
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(os.Stdout, res.Body)
		return err
	case len(args) == 2 && args[0] == "connect": // to HOST:PORT
		host, port, err := net.SplitHostPort(args[1])
		if err != nil {
			return err
		}
		addresses, err := net.LookupHost(host)
		if err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort(addresses[0], port), 3*time.Second)
		if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
			fmt.Println("timed out")
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println("connected")
		return c.Close()
	case (len(args) == 2 || len(args) == 3) && args[0] == "resolve": // over TCP, or over UDP at the server HOST:PORT
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, server string) (net.Conn, error) {
			var d net.Dialer
			if len(args) == 3 {
				return d.DialContext(ctx, "udp", args[2])
			}
			return d.DialContext(ctx, "tcp", server)
		}}
		addresses, err := r.LookupHost(context.Background(), args[1])
		for _, a := range addresses {
			fmt.Println(a)
		}
		return err
	case len(args) == 1 && args[0] == "identity":
		cfg, err := config.LoadDefaultConfig(context.Background())
		if err != nil {
			return err
		}
		who, err := sts.NewFromConfig(cfg).GetCallerIdentity(context.Background(), nil)
		if err != nil {
			return err
		}
		fmt.Println(*who.Arn)
		return nil
	case len(args) == 1 && args[0] == "users":
		cfg, err := config.LoadDefaultConfig(context.Background())
		if err != nil {
			return err
		}
		users, err := iam.NewFromConfig(cfg).ListUsers(context.Background(), nil)
		if err != nil {
			return err
		}
		fmt.Println("users:", len(users.Users))
		return nil
	case len(args) == 2 && args[0] == "ls":
		entries, err := os.ReadDir(args[1])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case len(args) == 2 && args[0] == "cat":
		b, err := os.ReadFile(args[1])
		fmt.Print(string(b))
		return err
	case len(args) == 3 && args[0] == "write":
		f, err := os.Create(args[1])
		if err != nil {
			return err
		}
		_, err = f.WriteString(args[2] + "\n")
		return errors.Join(err, f.Sync(), f.Close())
	case len(args) == 2 && args[0] == "fill": // a file of one GiB
		f, err := os.Create(args[1])
		if err != nil {
			return err
		}
		defer os.Remove(args[1])
		return errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, 1<<30), f.Close())
	case len(args) == 3 && args[0] == "occupy": // a file of some GiB, without an end
		n, err := strconv.ParseInt(args[2], 10, 32)
		if err != nil {
			return err
		}
		f, err := os.Create(args[1])
		if err != nil {
			return err
		}
		if err := errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, n<<30), f.Close()); err != nil {
			return err
		}
		fmt.Println("occupied")
		time.Sleep(time.Hour)
		return nil
	case len(args) == 1 && args[0] == "processes":
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			b, _ := os.ReadFile(f) // it may have ended
			fmt.Println(filepath.Base(filepath.Dir(f)), strings.ReplaceAll(string(b), "\x00", " "))
		}
		return err
	case len(args) == 1 && args[0] == "addresses":
		all, err := net.Interfaces()
		for _, i := range all {
			addresses, _ := i.Addrs() // it may have gone
			for _, a := range addresses {
				fmt.Println(i.Name, a)
			}
		}
		return err
	case len(args) > 0:
		_, err := fmt.Println("you said", strings.Join(args, " "))
		return err
	}
	fmt.Println("serving")
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client" {
			fmt.Fprintln(w, r.RemoteAddr)
			return
		}
		fmt.Fprintln(w, "hello from", name)
	}))
}
