//! Model list in the dialect of Messages: what its clients read at `GET /v1/models`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

/// What says that a client speaks the dialect.
pub(in crate::server) const VERSION: &str = "anthropic-version";

/// Seconds of a day.
const DAY: i64 = 86_400;

#[derive(Deserialize)]
struct List {
    data: Vec<Card>,
}

#[derive(Deserialize)]
struct Card {
    id: String,
    #[serde(default)]
    created: i64,
}

/// The list as Anthropic has it; `OpenAI`'s where that cannot be read.
pub(in crate::server) fn list(list: Bytes) -> Bytes {
    let Ok(List { data }) = serde_json::from_slice(&list) else { return list };
    let models: Vec<_> = data.iter().map(model).collect();
    let object = json!({
        "data": models,
        "has_more": false,
        "first_id": data.first().map(|card| &card.id),
        "last_id": data.last().map(|card| &card.id),
    });
    object.to_string().into()
}

/// One model as Anthropic has it.
pub(in crate::server) fn card(card: Bytes) -> Bytes {
    match serde_json::from_slice::<Card>(&card) {
        Ok(read) => model(&read).to_string().into(),
        Err(_) => card,
    }
}

fn model(card: &Card) -> serde_json::Value {
    json!({
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": date(card.created),
    })
}

/// A time as RFC 3339 has it. The civil date is Howard Hinnant's `civil_from_days`, which counts from the
/// first of March of year 0, so that the leap day is the last of a year.
fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_a_date() {
        let told = [0, 951_782_400, 1_700_000_000, 4_102_444_799].map(date);
        let dates = [
            "1970-01-01T00:00:00Z",
            "2000-02-29T00:00:00Z",
            "2023-11-14T22:13:20Z",
            "2099-12-31T23:59:59Z",
        ];
        assert_eq!(told, dates);
    }

    #[test]
    fn the_list_has_anthropic_s_shape() {
        let list = list(Bytes::from_static(
            br#"{"object":"list","data":[{"id":"a","created":0,"x":1},{"id":"b"}]}"#,
        ));
        let read: serde_json::Value = serde_json::from_slice(&list).unwrap();
        assert_eq!((&read["first_id"], &read["last_id"]), (&json!("a"), &json!("b")));
        assert_eq!(read["data"][1]["type"], "model");
        assert_eq!(read["data"][0]["created_at"], "1970-01-01T00:00:00Z");
    }
}
