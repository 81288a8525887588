package awscli

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// s3 is aws s3 cp of one object between a bucket and the machine.
func (c *command) s3(ctx context.Context, words []string) error {
	if len(words) == 0 || words[0] != "cp" {
		return unsupported("aws s3 " + strings.Join(words, " "))
	}
	var ends []string
	quiet := false
	for _, w := range words[1:] {
		switch {
		case w == "--quiet" || w == "--no-progress" || w == "--only-show-errors":
			quiet = quiet || w != "--no-progress"
		case strings.HasPrefix(w, "--"):
			return unsupported("aws s3 cp " + w)
		default:
			ends = append(ends, w)
		}
	}
	if len(ends) != 2 {
		return usagef("the following arguments are required: paths")
	}
	from, to := ends[0], ends[1]
	region, err := c.region(ctx)
	if err != nil {
		return err
	}
	remoteFrom, remoteTo := strings.HasPrefix(from, "s3://"), strings.HasPrefix(to, "s3://")
	switch {
	case remoteFrom == remoteTo && remoteFrom:
		return unsupported("aws s3 cp from bucket to bucket")
	case remoteFrom == remoteTo:
		return &failure{status: statusUsage, text: "\nusage: aws s3 cp <LocalPath> <S3Uri> or <S3Uri> <LocalPath> or <S3Uri> <S3Uri>\nError: Invalid argument type"}
	case remoteFrom:
		return c.download(ctx, region, from, to, quiet)
	}
	return c.upload(ctx, region, from, to, quiet)
}

// object returns the URL for s3://bucket/key.
func object(region, uri string) (target, key string, err error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	if bucket == "" || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return "", "", &failure{status: statusFailed, text: fmt.Sprintf("\nInvalid bucket name %q", bucket)}
	}
	u := url.URL{Scheme: "https", Host: bucket + ".s3." + region + ".amazonaws.com", Path: "/" + key}
	return u.String(), key, nil
}

func (c *command) s3Call(ctx context.Context, operation, method, target, region string, body []byte) ([]byte, error) {
	req, err := newRequest(ctx, method, target, body, "binary/octet-stream")
	if err != nil {
		return nil, err
	}
	resp, answer, err := c.send(ctx, req, "s3", region, false)
	if err != nil || resp.StatusCode < 300 {
		return answer, err
	}
	out := &APIError{Operation: operation, Code: fmt.Sprint(resp.StatusCode), Message: http.StatusText(resp.StatusCode)}
	var doc struct{ Code, Message string }
	if method != http.MethodHead && xml.Unmarshal(answer, &doc) == nil && doc.Code != "" {
		out.Code, out.Message = doc.Code, doc.Message
	}
	return nil, out
}

func (c *command) download(ctx context.Context, region, from, to string, quiet bool) error {
	target, key, err := object(region, from)
	if err != nil {
		return err
	}
	if to != "-" && (strings.HasSuffix(to, "/") || c.isDir(to)) {
		to = strings.TrimSuffix(to, "/") + "/" + path.Base(key)
	}
	if _, err = c.s3Call(ctx, "HeadObject", http.MethodHead, target, region, nil); err != nil {
		return &failure{status: statusFailed, text: "fatal error: " + strings.TrimSpace(err.Error()), cause: err}
	}
	b, err := c.s3Call(ctx, "GetObject", http.MethodGet, target, region, nil)
	if err == nil && to == "-" {
		_, err = c.Stdout.Write(b)
		return err
	}
	if err == nil {
		if err = c.FS.MkdirAll(path.Dir(c.Path(to)), 0o755); err == nil {
			err = c.FS.WriteFile(c.Path(to), b, 0o644)
		}
	}
	if err != nil {
		return &failure{status: statusFailed, text: fmt.Sprintf("download failed: %s to %s %s", from, local(to), strings.TrimSpace(err.Error())), cause: err}
	}
	if !quiet {
		fmt.Fprintf(c.Stdout, "download: %s to %s\n", from, local(to))
	}
	return nil
}

func (c *command) upload(ctx context.Context, region, from, to string, quiet bool) error {
	if strings.HasSuffix(to, "/") || strings.Count(to, "/") == 2 {
		to = strings.TrimSuffix(to, "/") + "/" + path.Base(from)
	}
	target, _, err := object(region, to)
	if err != nil {
		return err
	}
	var b []byte
	if from == "-" {
		b, err = io.ReadAll(io.LimitReader(c.Stdin, maxFile))
	} else if b, err = c.FS.ReadFile(c.Path(from)); err != nil {
		return &failure{status: statusGeneral, text: "\nThe user-provided path " + from + " does not exist."}
	}
	if err == nil {
		_, err = c.s3Call(ctx, "PutObject", http.MethodPut, target, region, b)
	}
	if err != nil {
		return &failure{status: statusFailed, text: fmt.Sprintf("upload failed: %s to %s %s", local(from), to, strings.TrimSpace(err.Error())), cause: err}
	}
	if !quiet {
		fmt.Fprintf(c.Stdout, "upload: %s to %s\n", local(from), to)
	}
	return nil
}

// local returns a path as the CLI shows it: relative ones start with a dot.
func local(name string) string {
	if path.IsAbs(name) || strings.HasPrefix(name, ".") || name == "-" {
		return name
	}
	return "./" + name
}

func (c *command) isDir(name string) bool {
	i, err := c.FS.Stat(c.Path(name))
	return err == nil && i.IsDir()
}
