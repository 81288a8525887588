// Web is what the image of the container tests runs: a server, a client of one or of AWS, or what its arguments say.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
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
	case len(args) > 0:
		_, err := fmt.Println("you said", strings.Join(args, " "))
		return err
	}
	fmt.Println("serving")
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from", name) }))
}
