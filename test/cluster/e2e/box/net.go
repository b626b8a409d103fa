package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/interp"
)

// cannotConnect is curl's exit status for a server that it does not reach.
const cannotConnect = 7

// curl implements those flags of curl that the tests use, for GET.
func curl(ctx context.Context, out io.Writer, args []string) error {
	flags := pflag.NewFlagSet("curl", pflag.ContinueOnError)
	flags.BoolP("globoff", "g", false, "")
	flags.BoolP("disable", "q", false, "")
	silent := flags.BoolP("silent", "s", false, "")
	include := flags.BoolP("include", "i", false, "")
	output := flags.StringP("output", "o", "", "")
	format := flags.StringP("write-out", "w", "", "")
	connect := flags.Float64("connect-timeout", 0, "")
	limit := flags.Float64P("max-time", "m", 0, "")
	source := flags.String("interface", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("want one URL, not %q", flags.Args())
	}
	url := flags.Arg(0)
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}

	dialer := net.Dialer{Timeout: seconds(*connect)}
	if *source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(*source)}
	}
	client := http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext},
		Timeout:   seconds(*limit),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		if !*silent {
			fmt.Fprintln(os.Stderr, "curl:", err)
		}
		return interp.NewExitStatus(cannotConnect)
	}
	defer response.Body.Close()

	to := out
	if *output != "" {
		file, err := os.Create(*output)
		if err != nil {
			return err
		}
		defer file.Close()
		to = file
	}
	if *include {
		fmt.Fprintf(to, "%s %s\r\n", response.Proto, response.Status)
		_ = response.Header.Write(to)
		fmt.Fprint(to, "\r\n")
	}
	if _, err := io.Copy(to, response.Body); err != nil {
		return err
	}
	_, err = fmt.Fprint(out, strings.ReplaceAll(*format, "%{http_code}", strconv.Itoa(response.StatusCode)))
	return err
}

// nc implements `nc [-u] [-w SECONDS] HOST PORT`: it sends its input, and prints what
// comes back until the other end closes or is silent for that long.
func nc(ctx context.Context, out io.Writer, args []string) error {
	flags := pflag.NewFlagSet("nc", pflag.ContinueOnError)
	udp := flags.BoolP("udp", "u", false, "")
	flags.BoolP("telnet", "t", false, "")
	flags.BoolP("verbose", "v", false, "")
	wait := flags.Float64P("wait", "w", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return fmt.Errorf("want a host and a port, not %q", flags.Args())
	}
	network := "tcp"
	if *udp {
		network = "udp"
	}

	dialer := net.Dialer{Timeout: seconds(*wait)}
	conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(flags.Arg(0), flags.Arg(1)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.Copy(conn, os.Stdin); err != nil {
		return err
	}
	if *wait > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(seconds(*wait))); err != nil {
			return err
		}
	}
	_, err = io.Copy(out, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
