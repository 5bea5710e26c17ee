# What is refused before anything is made.

mock_provider "google" {}

variables {
  project = "team-train"
  region  = "us-central1"
  image   = "us-central1-docker.pkg.dev/team-train/convoke/functions:1a2b3c4"
}

run "a_digest_is_taken" {
  command = plan

  variables {
    image = "us-central1-docker.pkg.dev/team-train/convoke/functions@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  }
}

run "a_moving_tag_is_not" {
  command = plan

  variables {
    image = "us-central1-docker.pkg.dev/team-train/convoke/functions:latest"
  }

  expect_failures = [var.image]
}

run "an_image_without_a_tag_is_not" {
  command = plan

  variables {
    image = "us-central1-docker.pkg.dev/team-train/convoke/functions"
  }

  expect_failures = [var.image]
}

run "a_zone_is_no_region" {
  command = plan

  variables {
    region = "us-central1-a"
  }

  expect_failures = [var.region]
}

run "a_number_is_no_project" {
  command = plan

  variables {
    project = "123456789012"
  }

  expect_failures = [var.project]
}

run "the_default_database_is_somebody_elses" {
  command = plan

  variables {
    database = "(default)"
  }

  expect_failures = [var.database]
}

run "nobody_is_everybody" {
  command = plan

  variables {
    api_callers     = ["allUsers"]
    console_viewers = ["allAuthenticatedUsers"]
  }

  expect_failures = [var.api_callers, var.console_viewers]
}

run "the_rest" {
  command = plan

  variables {
    ingress                  = "everywhere"
    cluster_service_accounts = ["serviceAccount:a@team-train.iam.gserviceaccount.com"]
    alert_emails             = ["oncall"]
    max_instances            = 0
  }

  expect_failures = [var.ingress, var.cluster_service_accounts, var.alert_emails, var.max_instances]
}
