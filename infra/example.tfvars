project = "team-train"
region  = "us-central1"
image   = "us-central1-docker.pkg.dev/team-train/convoke/functions:1a2b3c4"

api_callers     = ["group:hpc-operators@example.com"]
console_viewers = ["group:researchers@example.com"]
alert_emails    = ["hpc-oncall@example.com"]
