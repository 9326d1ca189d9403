package bed

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const killedVariable = "CSR_APPROVER_TEST_BED_TO_KILL"

// TestKilledBed kills a process with a bed the hard way and has the next bed clean up.
func TestKilledBed(t *testing.T) {
	if os.Getenv(killedVariable) != "" {
		bedToKill(t)
	}
	if testing.Short() {
		t.Skip("waits for a bed to be old enough; left out by -short")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBed$")
	cmd.Env = append(os.Environ(), killedVariable+"=yes")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the other bed wrote %q: %v", line, err)
	}
	id, tmp, _ := strings.Cut(strings.TrimSpace(line), " ")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := os.Stat(tmp); err != nil {
		t.Fatalf("nothing is left to clean up: %v", err)
	}
	time.Sleep(2 * time.Second)
	newBed(t, Options{})
	checkNothingLeft(t, &Bed{id: id, tmp: tmp})
}

// bedToKill makes what a bed can leave behind and waits for its end.
func bedToKill(t *testing.T) {
	b, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := RealKubelets(); ok {
		if err := b.bridge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.makeNetns(t.Context(), "1", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.start("tail", "tail", "-f", filepath.Join(b.tmp, "lock")); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString(b.id + " " + b.tmp + "\n")
	time.Sleep(time.Minute)
}
