# A formula for a tap of your own. `sudo brew services start inference-watchdog` makes a LaunchDaemon; without sudo it
# would be a LaunchAgent, which macOS 15 and newer refuse the local network.
class InferenceWatchdog < Formula
  include Language::Python::Virtualenv

  desc "Wakes you when your LLM server stops generating, or its machines are about to lock up"
  homepage "https://example.org/inference-watchdog" # where you publish it
  url "https://example.org/inference-watchdog/inference_watchdog-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000" # of that file: shasum -a 256
  license "MIT"

  depends_on "python@3.12"

  def install
    # The libraries are wheels with hashes (requirements/run.txt travels in the source distribution); google-re2
    # and cryptography would take half an hour to build.
    venv = virtualenv_create(libexec, "python3.12", without_pip: false)
    system libexec/"bin/pip", "install", "--require-hashes", "-r", "requirements/run.txt"
    venv.pip_install_and_link buildpath, build_isolation: true
    man1.install "packaging/man/inference-watchdog.1"
    bash_completion.install "packaging/completions/inference-watchdog.bash" => "inference-watchdog"
    zsh_completion.install "packaging/completions/_inference-watchdog"
    fish_completion.install "packaging/completions/inference-watchdog.fish"
    (etc/"inference-watchdog").mkpath
    (var/"lib/inference-watchdog").mkpath
    (var/"log/inference-watchdog").mkpath
  end

  service do
    run [
      opt_bin/"inference-watchdog", "run",
      "--config", etc/"inference-watchdog/config.yaml",
      "--state-dir", var/"lib/inference-watchdog",
      "--log-file", var/"log/inference-watchdog/daemon.log"
    ]
    require_root true
    keep_alive true
    throttle_interval 15
    process_type :standard
    working_dir "/"
    error_log_path var/"log/inference-watchdog/stderr.log"
  end

  def caveats
    <<~EOS
      Write #{etc}/inference-watchdog/config.yaml (chmod 600), check it with
        inference-watchdog validate --config #{etc}/inference-watchdog/config.yaml
      and start it with sudo, as agents lose the local network:
        sudo brew services start inference-watchdog
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/inference-watchdog --version")
    (testpath/"config.yaml").write "servers: []\n"
    assert_match "config.yaml", shell_output("#{bin}/inference-watchdog validate --config config.yaml 2>&1", 64)
  end
end
