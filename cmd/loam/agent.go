package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/console"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// memoryLimit is below MemoryHigh= of the agent's unit: garbage is collected
// before the kernel slows the agent down.
const memoryLimit = 192 << 20

func agentCommand() *cobra.Command {
	ended := false
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Make the node equal to its configuration, and keep it so",
		Long: `agent takes the node's configuration from its source, applies it, and keeps the node equal
to it, until it is told to stop. loam-agent.service runs it, as root, and no operator does.`,
		Example: "  systemctl status loam-agent\n  loam status\n  loam logs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return hint.With(
					fault.With(
						errors.New("the agent changes the node: it must be root"), fault.NotPermitted,
					),
					"systemd starts it, see `systemctl status loam-agent`",
				)
			}

			if ended {
				return sayEnded(cmd.Context())
			}

			debug.SetMemoryLimit(memoryLimit)
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			log := logger(os.Stderr)
			defer log.Sync()

			err := agent.Run(ctx, agent.NodeEnv(log))
			if agent.Restarts(err) {
				log.Info("the agent starts again", zap.Error(err))
				return nil // Else systemd would take it for a crash.
			}
			return err
		},
	}

	cmd.Flags().BoolVar(&ended, "ended", false, "say on the consoles how the agent has ended")
	_ = cmd.Flags().MarkHidden("ended") // For ExecStopPost= of the agent's unit.
	return cmd
}

// sayEnded says on the consoles how the agent has ended.
func sayEnded(ctx context.Context) error {
	consoles, err := console.Open("/dev", "/sys/class/tty/console/active")
	if err != nil {
		return err
	}
	end := agent.End{
		Result: os.Getenv("SERVICE_RESULT"),
		Code:   os.Getenv("EXIT_CODE"),
		Status: os.Getenv("EXIT_STATUS"),
	}
	isToldToStop := func() bool { return agent.IsToldToStop(ctx, unit.PrivateSocket) }
	return agent.Ended("/", end, isToldToStop, consoles, time.Now())
}

// logger writes for the journal, which adds the time. Whatever is logged, the journal
// has no passwords of URLs.
func logger(out io.Writer) *zap.Logger {
	config := zapcore.EncoderConfig{
		MessageKey:     "msg",
		LevelKey:       "level",
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	}
	return zap.New(hintCore{zapcore.NewCore(zapcore.NewConsoleEncoder(config),
		zapcore.Lock(zapcore.AddSync(redact.Writer{To: out})), zap.InfoLevel)})
}
